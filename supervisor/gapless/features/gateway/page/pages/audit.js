// The audit: changes with their author, time and object, filtered and in pages.

import { address } from "../address.js";
import { filterForm } from "../filter.js";
import { el } from "../dom.js";
import { paging, when } from "../reading.js";

export default { name: "audit", title: "Audit", key: "a", menu: "more", pages: { 0: audit } };

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
  const wanted = Object.fromEntries(query);
  main.append(el("h1", {}, "Audit"), filterForm(FIELDS, wanted, (given) => address(["audit"], given)),
    ...paging(signal, "/v1/audit", () => wanted, {
      columns: COLUMNS,
      next: (last) => ({ before: last.audit_id }),
      more: "Older changes",
      empty: "No change of this kind. Changes by commands and by this page are noted here: gapless audit.",
    }));
}
