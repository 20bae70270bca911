// A table that is sorted and filtered as the address says; each look draws only the cells that say something else.

import { keep, kept } from "./address.js";
import { cells, el, scrolling, show } from "./dom.js";
import { count } from "./words.js";

const ROWS = 100; // at most, until all are asked for: a look draws them anew

/** A table of things with names: {find, element, use, draw}. find: a field for a part of a name. use: shows these rows.
 * word: for one of them. columns: {title, of, kind, by: the value that it sorts by, up: ascending first,
 * hide: on narrow screens, where the page of the row has it}.
 * order: compares two without another wish. empty: the sentence where there is none. */
export function sortedTable({ word, nameOf, href, columns, order, empty }) {
  let all = null; // not known yet
  let isAll = false;
  const find = el("input", { name: "find", type: "search", placeholder: `filter ${word}s`, "aria-label": `filter ${word}s`, autocomplete: "off", spellcheck: "false" });
  const head = el("tr");
  const body = el("tbody");
  const list = el("table", { hidden: true }, el("thead", {}, head), body);
  const foot = el("div");
  const drawn = new Map(); // by name: {row, words}

  const draw = () => {
    if (!all) return;
    const [sort, isUp] = sorting(columns);
    const wanted = find.value.trim().toLowerCase();
    const found = all.filter((each) => nameOf(each).toLowerCase().includes(wanted));
    found.sort(sort ? (a, b) => (isUp ? 1 : -1) * compare(sort.by(a), sort.by(b)) || order(a, b) : order);
    const rows = isAll ? found : found.slice(0, ROWS);
    list.hidden = !rows.length;
    show(head, columns.map((column) => heading(column, column === sort, isUp, draw)));
    place(body, rows.map((each) => drawnRow(drawn, each, { columns, nameOf, href })));
    const there = new Set(all.map(nameOf));
    for (const each of drawn.keys()) if (!there.has(each)) drawn.delete(each);
    show(foot, !all.length ? el("p", { class: "empty" }, empty)
      : !rows.length ? el("p", { class: "empty" }, `No ${word} of ${count(all.length)} has “${wanted}” in its name.`)
      : rows.length < found.length && el("p", { class: "quiet" }, `${count(ROWS)} of ${count(found.length)} ${word}s `,
        el("button", { type: "button", onclick: () => ((isAll = true), draw()) }, "Show all")));
  };
  find.value = kept("find") || "";
  find.addEventListener("input", () => {
    keep({ find: find.value.trim() });
    draw();
  });
  return { find, element: el("div", {}, scrolling(list), foot), use: (newest) => ((all = newest), draw()), draw };
}

const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);

/** The column that the address sorts by, if any, and whether it goes up. */
function sorting(columns) {
  const [title, way] = (kept("sort") || "").split(":");
  const column = columns.find((each) => each.title === title);
  return [column, way === "up"];
}

/** A title that sorts: first the way that is asked for most, then the other, then by need again. */
function heading(column, isSorted, isUp, draw) {
  const next = !isSorted ? (column.up ? "up" : "down") : isUp === !!column.up ? (isUp ? "down" : "up") : "";
  const sort = isSorted ? (isUp ? "ascending" : "descending") : null;
  return el("th", { class: [column.kind, column.hide && "wide"].filter(Boolean).join(" ") || null, scope: "col", "aria-sort": sort },
    el("button", { type: "button", onclick: () => (keep({ sort: next && `${column.title}:${next}` }), draw()) }, column.title));
}

/** The row as it was drawn, with new contents in the cells that say something else. */
function drawnRow(drawn, each, { columns, nameOf, href }) {
  const made = cells(columns, each);
  const words = made.map((each) => each.innerHTML);
  const before = drawn.get(nameOf(each));
  const row = before?.row || el("tr", { "data-href": href(each), tabindex: "0" }, made);
  before?.words.forEach((word, i) => word !== words[i] && show(row.cells[i], [...made[i].childNodes]));
  drawn.set(nameOf(each), { row, words });
  return row;
}

/** Put rows into a body in this order, and move only those that are elsewhere: the focus stays. */
function place(body, rows) {
  const wanted = new Set(rows);
  const focused = document.activeElement;
  for (const each of [...body.children]) if (!wanted.has(each)) each.remove();
  let at = body.firstChild;
  for (const row of rows) {
    if (row === at) at = at.nextSibling;
    else body.insertBefore(row, at);
  }
  if (body.contains(focused)) focused.focus({ preventScroll: true }); // an element that is moved loses it
}
