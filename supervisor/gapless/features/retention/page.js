// Chunks of the log: their sum, the reasons for which they stay, and the remedy.

import { el, facts, table } from "../dom.js";
import { reading, when } from "../reading.js";
import { bytes, count, plural } from "../words.js";

export default { name: "retention", title: "Retention", menu: "more", pages: { 0: retention } };

function retention(page) {
  const held = el("div");
  reading(page, "Retention", [
    ["The log", "/v1/retention", (chunks) => [sum(chunks), el("h2", {}, "Chunks, the oldest first"), table([
      { title: "chunk", of: (each) => each.chunk },
      { title: "events", kind: "number", of: (each) => (each.events === null ? "in use" : count(each.events)) },
      { title: "size", kind: "number", of: (each) => bytes(each.bytes) },
      { title: "newest", of: (each) => when(each.newest) },
      { title: "stays for", of: (each) => (each.goes ? "goes at the next turn" : el("span", { class: each.is_behind ? "warn" : null }, each.reasons.join("; "))) },
    ], chunks, { empty: "Nothing yet." })]],
  ], held);
  return (status) => held.replaceChildren(...(status.held.length ? [el("p", { class: "warn" }, `Retention waits: ${status.held.join("; ")}`)] : []));
}

function sum(chunks) {
  const going = chunks.filter((each) => each.goes);
  const total = (rows) => bytes(rows.reduce((all, each) => all + each.bytes, 0));
  const oldest = chunks.find((each) => !each.goes);
  const first = chunks.find((each) => each.newest);
  return facts([
    ["size", `${total(chunks)} in ${plural(chunks.length, "chunk")}`],
    ["oldest chunk", first ? ["its newest event is of ", when(first.newest)] : "in use"],
    ["free at the next turn", `${total(going)} of ${plural(going.length, "chunk")}: supervisors do it, or gapless retention --apply`],
    ["held by", oldest && oldest.reasons.length ? el("span", { class: oldest.is_behind ? "warn" : null }, oldest.reasons.join("; ")) : "nothing"],
    ["remedy", remedy(oldest)],
  ]);
}

function remedy(oldest) {
  if (!oldest || oldest.events === null) return "none is needed: a chunk goes as a whole, after its last event";
  return oldest.is_behind
    ? "let the reader catch up, or let the log pass it: gapless topics alter TOPIC --overrun GROUP"
    : "keep a topic for less time: gapless topics alter TOPIC --retention 7d";
}
