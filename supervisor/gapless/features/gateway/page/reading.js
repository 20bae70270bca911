// A page of lists that are read now and after each change.

import { get } from "./api.js";
import { el, section, show } from "./dom.js";

/** A time as the reader's clock has it, and in UTC as its title; null for none. */
export function when(text) {
  const at = text ? new Date(text) : null;
  if (!at || isNaN(at)) return text || null;
  const utc = at.toISOString();
  return el("time", { datetime: utc, title: `${utc.slice(0, 19).replace("T", " ")} UTC` }, at.toLocaleString());
}

/** A page that reads documents now and after each change: parts are [heading, address, draw, query]; one that cannot
 * be read says why. before: elements that stay. */
export function reading({ main, signal }, title, parts, ...before) {
  const body = el("div");
  if (title) main.append(el("h1", {}, title));
  main.append(...before.filter(Boolean), body);
  const load = async () => {
    const made = await Promise.all(parts.map(async ([heading, where, draw, query = {}]) => {
      try {
        return section(heading, draw(await get(where, query, signal)));
      } catch (error) {
        return section(heading, el("p", { class: "bad" }, error.message));
      }
    }));
    if (!signal.aborted) show(body, made);
  };
  addEventListener("look", load, { signal });
  load();
}
