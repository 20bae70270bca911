// A filter of a list. It stands in the address, in UTC, so that Back, a reload and a link bring it again.

import { el } from "./dom.js";
import { when } from "./reading.js";

const isTime = ({ type }) => type === "datetime-local";

/** A form of fields ({name, title, type, hint, options: [value, title]}) whose values go into an address: values => address. */
export function filterForm(fields, given, address) {
  const form = el("form", { role: "search", class: "filters" },
    fields.map((field) => el("label", {}, field.title, input(field, given[field.name] ?? ""))), el("button", { class: "main" }, "Filter"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
    for (const { name } of fields.filter(isTime)) if (wanted[name]) wanted[name] = new Date(wanted[name]).toISOString();
    const asked = address(wanted);
    if (location.hash === asked) dispatchEvent(new Event("look"));
    else location.hash = asked;
  });
  return form;
}

/** The parts of a filter, each with the address of the list without it. */
export function chips(fields, given, address) {
  const shown = fields.filter(({ name }) => given[name]);
  return shown.length > 0 && el("p", { class: "chips" }, shown.map((field) => {
    const { [field.name]: value, ...rest } = given;
    return el("a", { class: "chip", href: address(rest), "aria-label": `without the filter ${field.title}` }, `${field.title}: `, isTime(field) ? when(value) : el("bdi", {}, value), " ×");
  }));
}

function input({ name, type = "text", hint, options }, value) {
  if (options) return el("select", { name }, options.map(([each, title = each]) => el("option", { value: each, selected: each === value }, title)));
  const text = isTime({ type }) ? localTime(value) : value;
  return el("input", { name, type, value: text, placeholder: hint, autocomplete: "off", spellcheck: "false", step: isTime({ type }) ? "1" : null });
}

/** A time for an input, by the reader's clock. */
function localTime(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? "" : new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
