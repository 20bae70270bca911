// Elements without HTML: all from the log is text, never markup, and it moves no words beside it.

// Characters that turn the direction of text or are not seen, but tabs and line ends: those of ops/text.py, and zero-width ones.
const UNSAFE = /[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu;

/** A text with escapes in place of unsafe characters (pure). */
export const plain = (text) =>
  text.replace(UNSAFE, (found) => (found < "\u0100" ? "\\x" : "\\u") + found.charCodeAt(0).toString(16).padStart(found < "\u0100" ? 2 : 4, "0"));

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. `on…` attributes are listeners, null and false are left out, true is an empty attribute. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an element of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

const SAID = new Set(["title", "aria-label", "data-title"]); // attributes that people read

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : SAID.has(name) ? plain(String(value)) : String(value));
  }
  made.append(...there(children));
  return made;
}

/** Show these in an element, in place of its contents; the focus stays where it was. */
export function show(element, ...children) {
  const at = focusable(element).indexOf(document.activeElement);
  const chosen = at >= 0 && identity(document.activeElement);
  element.replaceChildren(...there(children));
  if (at < 0) return;
  const now = focusable(element);
  (alike(element, chosen) || now[Math.min(at, now.length - 1)])?.focus({ preventScroll: true });
}

/** The same for a region that is read aloud: it is left alone while it says the same. */
export function say(element, ...children) {
  const made = el("div", {}, children);
  if (made.innerHTML !== element.innerHTML) show(element, [...made.childNodes]);
}

/** Elements that can have the focus. */
export const focusable = (element) => [...element.querySelectorAll("a, button, input, select, textarea, summary, [tabindex]")];

/** The element that stands for this one after it was drawn anew. */
export const alike = (element, chosen) => focusable(element).find((each) => identity(each) === chosen);

/** What an element is after it was drawn anew: its row, by where that leads or by its first cell, and its words. */
export function identity(element) {
  const row = element.closest("tr");
  const words = element === row ? "" : element.name || element.textContent;
  return [row && (row.dataset.href || row.cells[0].textContent), element.tagName, words].join("\n");
}

const there = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map((child) => (child instanceof Node ? child : plain(String(child))));

/** A table: columns are {title, of: row => node or text, kind: "number" | "time" | "text"}; on narrow screens a row is a card; dense: a table there too. */
export function table(columns, rows, { empty, href, mark, dense } = {}) {
  if (rows.length === 0) return el("p", { class: "empty" }, empty || "nothing");
  const body = rows.map((row) =>
    el("tr", { class: mark && mark(row), "data-href": href && href(row), tabindex: href ? "0" : null }, cells(columns, row)));
  const made = el("table", { class: dense ? null : "cards" }, head(columns), el("tbody", {}, body));
  return dense ? scrolling(made) : made;
}

/** A box in which a wide table scrolls, so that the page does not. */
export const scrolling = (made) => el("div", { class: "scrolls" }, made);

/** The titles of columns; a column without one, of buttons, has none for screen readers either. */
export const head = (columns) =>
  el("thead", {}, el("tr", {}, columns.map((column) => (column.title ? el("th", { class: kind(column), scope: "col" }, column.title) : el("td", { class: kind(column) })))));

/** The cells of a row. */
export const cells = (columns, row) =>
  columns.map((column) => el("td", { class: kind(column), "data-title": column.title }, column.of(row) ?? "–"));

const kind = (column) => [column.kind || "text", column.hide && "wide"].filter(Boolean).join(" ");

/** A heading with its contents. */
export function section(title, ...children) {
  return el("section", {}, el("h2", {}, title), children);
}

/** Names and values, a line each. */
export function facts(pairs) {
  return el("dl", {}, pairs.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value ?? "–")]));
}
