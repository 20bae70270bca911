// Chunks of the log, and the reasons for which they stay.

import { el, table } from "../dom.js";
import { reading, when } from "../reading.js";
import { bytes, count } from "../words.js";

export default { name: "retention", title: "Retention", pages: { 0: retention } };

function retention(page) {
  reading(page, "Retention", [
    ["Chunks of the log, the oldest first", "/v1/retention", (chunks) => table([
      { title: "chunk", of: (each) => each.chunk },
      { title: "events", kind: "number", of: (each) => (each.events === null ? "in use" : count(each.events)) },
      { title: "size", kind: "number", of: (each) => bytes(each.bytes) },
      { title: "newest", hide: true, of: (each) => when(each.newest) },
      { title: "stays for", of: (each) => (each.goes ? "goes at the next turn" : el("span", { class: each.is_behind ? "warn" : null }, each.reasons.join("; "))) },
    ], chunks, { empty: "Nothing yet." })],
  ]);
}
