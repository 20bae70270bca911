// A filter of a list that stands in the address, so that Back and a reload bring it again.

import { el } from "./dom.js";

/** The filter of an address, as the query of a route: times of fields in the reader's zone become UTC. */
export function filterOf(query, fields) {
  const given = Object.fromEntries(query);
  for (const { name, type } of fields) {
    if (type === "datetime-local" && given[name]) given[name] = new Date(given[name]).toISOString();
  }
  return given;
}

/** A form of fields ({name, title, type, options}) that puts its values into the address of a page. */
export function filterForm(page, query, fields) {
  const form = el("form", { role: "search" }, fields.map((field) => el("label", {}, field.title, input(field, query.get(field.name) || ""))),
    el("button", { class: "main" }, "Show"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const asked = `#/${page}${given.size ? `?${given}` : ""}`;
    if (location.hash === asked) dispatchEvent(new Event("look"));
    else location.hash = asked;
  });
  return form;
}

function input({ name, type = "text", options }, value) {
  if (!options) return el("input", { name, type, value, autocomplete: "off", spellcheck: "false", step: type === "datetime-local" ? "1" : null });
  return el("select", { name }, ["", ...options].map((each) => el("option", { value: each, selected: each === value }, each || "any")));
}
