// Elements without HTML: whatever comes from the log is text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. `on…` attributes are listeners, null and false are left out, true is an empty attribute. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an element of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...there(children));
  return made;
}

/** Show these in an element, instead of what it shows. */
export function show(element, ...children) {
  element.replaceChildren(...there(children));
}

const there = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

/** A table: columns are {title, of: row => node or text, kind: "number" | "text", hide: on narrow screens}. */
export function table(columns, rows, { empty, href, mark } = {}) {
  if (rows.length === 0) return el("p", { class: "empty" }, empty || "nothing");
  const head = el("tr", {}, columns.map((column) => el("th", { class: cell(column), scope: "col" }, column.title)));
  const body = rows.map((row) => {
    const cells = columns.map((column) =>
      el("td", { class: cell(column), "data-title": column.title }, column.of(row) ?? "–"),
    );
    return el("tr", { class: mark && mark(row), "data-href": href && href(row), tabindex: href ? "0" : null }, cells);
  });
  return el("table", {}, el("thead", {}, head), el("tbody", {}, body));
}

function cell(column) {
  return [column.kind || "text", column.hide && "wide"].filter(Boolean).join(" ");
}

/** A heading with what belongs to it. */
export function section(title, ...children) {
  return el("section", {}, el("h2", {}, title), children);
}

/** Names and values, a line each. */
export function facts(pairs) {
  return el("dl", {}, pairs.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value ?? "–")]));
}
