// A page of lists that are read now and after each change.

import { get } from "./api.js";
import { cells, el, head, section, show } from "./dom.js";

/** A time as the reader's clock has it, and in UTC as its title; null for none. */
export function when(text) {
  const at = text ? new Date(text) : null;
  if (!at || isNaN(at)) return text || null;
  const utc = at.toISOString();
  return el("time", { datetime: utc, title: `${utc.slice(0, 19).replace("T", " ")} UTC` }, at.toLocaleString());
}

/** The same read, one after the other: no older answer comes after a newer one. One that throws does not end the others. */
export function inTurn(read) {
  let reads = Promise.resolve();
  return (...given) => {
    const next = () => read(...given);
    return (reads = reads.then(next, next));
  };
}

/** A page that reads documents now and after each change: parts are [heading, address, draw, query]; one that cannot
 * be read says why. before: elements that stay. */
export function reading({ main, signal }, title, parts, ...before) {
  const body = el("div");
  if (title) main.append(el("h1", {}, title));
  main.append(...before.filter(Boolean), body);
  const load = inTurn(async () => {
    const made = await Promise.all(parts.map(async ([heading, where, draw, query = {}, read = get]) => {
      try {
        return section(heading, draw(await read(where, query, signal)));
      } catch (error) {
        return section(heading, el("p", { class: "bad" }, error.message));
      }
    }));
    if (!signal.aborted) show(body, made);
  });
  addEventListener("look", load, { signal });
  load();
}

const ROWS = 100;

/** A table that comes in pages, with a button for the next one; it is read now and after each change. wanted: => query.
 * next: the last row => the query of the rows behind it. href: of a row. more: the word on the button. */
export function paging(signal, where, wanted, { columns, next, href, empty, more }) {
  const list = el("tbody");
  const rows = el("table", { class: "cards" }, head(columns), list);
  const button = el("button", { type: "button", hidden: true }, more);
  const state = el("div");
  let last = null;
  let isAdding = false; // a second click would bring the same page again
  const read = inTurn(async (isNext) => {
    try {
      const found = await get(where, { ...wanted(), limit: ROWS, ...(isNext ? next(last) : {}) }, signal);
      const made = found.map((each) => el("tr", { "data-href": href && href(each), tabindex: href ? "0" : null }, cells(columns, each)));
      if (isNext) list.append(...made);
      else show(list, made);
      button.hidden = found.length < ROWS;
      last = found.at(-1);
      rows.hidden = list.rows.length === 0;
      show(state, rows.hidden && el("p", { class: "empty" }, empty));
    } catch (error) {
      if (signal.aborted) return;
      rows.hidden = list.rows.length === 0;
      show(state, el("p", { class: "bad" }, error.message));
    }
    if (isNext) isAdding = false;
  });
  const load = (isNext) => {
    if (isNext && isAdding) return;
    isAdding ||= isNext;
    read(isNext);
  };
  button.onclick = () => load(true);
  addEventListener("look", () => load(false), { signal });
  load(false);
  return [state, rows, button];
}
