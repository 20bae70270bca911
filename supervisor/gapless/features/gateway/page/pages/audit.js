// The audit: changes with their author, time and object, filtered and in pages.

import { address } from "../address.js";
import { get } from "../api.js";
import { filterForm } from "../filter.js";
import { cells, el, head, show } from "../dom.js";
import { when } from "../reading.js";

export default { name: "audit", title: "Audit", key: "a", menu: "more", pages: { 0: audit } };

const ROWS = 100;
const FIELDS = [
  { name: "who", title: "who" }, { name: "action", title: "action" }, { name: "group", title: "group" }, { name: "topic", title: "topic" },
  { name: "since", title: "from", type: "datetime-local" }, { name: "until", title: "until", type: "datetime-local" },
];
const COLUMNS = [
  { title: "at", kind: "time", of: (each) => when(each.at) },
  { title: "who", of: (each) => each.who },
  { title: "action", of: (each) => each.action },
  { title: "object", of: object },
  { title: "details", of: (each) => details(each.detail) },
];

function object({ group, topic, partition }) {
  const name = [group, topic, partition].filter((part) => part !== null).join("/");
  return group && topic ? el("a", { href: address(["groups", group, topic]) }, name) : name || null;
}

function details(detail) {
  const isSaid = ([name, value]) => name !== "holder" && !["null", '""', "{}", "[]"].includes(JSON.stringify(value));
  const said = Object.entries(detail).filter(isSaid);
  return said.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ") || null;
}

function audit({ main, query, signal }) {
  const list = el("tbody");
  const rows = el("table", { class: "cards" }, head(COLUMNS), list);
  const more = el("button", { type: "button", onclick: () => load(list.lastChild.id.slice(1)) }, "Older changes");
  const state = el("div");
  const wanted = Object.fromEntries(query);
  const load = async (before) => {
    try {
      const found = await get("/v1/audit", { ...wanted, limit: ROWS, before }, signal);
      const made = found.map((each) => el("tr", { id: `a${each.audit_id}` }, cells(COLUMNS, each)));
      if (before) list.append(...made);
      else show(list, made);
      more.hidden = found.length < ROWS;
      show(state, list.rows.length === 0 && el("p", { class: "empty" }, "No change of this kind. Changes by commands and by this page are noted here: gapless audit."));
    } catch (error) {
      if (!signal.aborted) show(state, el("p", { class: "bad" }, error.message));
    }
  };
  more.hidden = true;
  addEventListener("look", () => load(), { signal });
  main.append(el("h1", {}, "Audit"), filterForm(FIELDS, wanted, (given) => address(["audit"], given)), state, rows, more);
  load();
}
