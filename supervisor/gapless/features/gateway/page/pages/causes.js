// Units set aside, counted by the cause that they have in common.

import { address } from "../address.js";
import { el, table } from "../dom.js";
import { when } from "../reading.js";
import { count } from "../words.js";

export const OPEN = "dead,waiting,parked"; // the states of units that are not done with

/** The filter that chooses the units of a cause. */
function chosen(row, by) {
  if (by === "type") return { type: row.cause };
  if (by !== "day") return { cause: row.cause };
  const day = Date.parse(`${row.cause}T00:00:00Z`);
  return { since: new Date(day).toISOString(), until: new Date(day + 86_400_000).toISOString() };
}

/** A table of causes; each leads to its units. */
export function causes(rows, wanted, { by = "error", empty } = {}) {
  const href = (row) => (row.cause === null ? null : address(["dead"], { ...wanted, group: row.group, topic: row.topic, ...chosen(row, by) }));
  return table([
    { title: "units", kind: "number", of: (row) => count(row.units) },
    { title: by, of: (row) => (href(row) ? el("a", { href: href(row) }, row.cause || "(empty)") : "(no type)") },
    !wanted.topic && { title: "group", kind: "unit", of: (row) => `${row.group}/${row.topic}` },
    { title: "first", of: (row) => when(row.first_failed) },
    { title: "last", of: (row) => when(row.failed) },
  ].filter(Boolean), rows, { empty });
}
