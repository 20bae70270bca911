// Members: supervisors and clients, with their work and their last sign of life.

import { el, section, show, table } from "../dom.js";
import { when } from "../reading.js";
import { age, count } from "../words.js";

export default { name: "members", title: "Members", key: "m", menu: "more", pages: { 0: members } };

const STATES = { active: "good", draining: "warn" };

function members({ main }) {
  return ({ members: all, evictions, taken_at: taken }) => {
    const began = (each) => new Date(new Date(taken) - each.up_s * 1000).toISOString();
    const columns = [
      { title: "member", of: (each) => each.member },
      { title: "kind", of: (each) => each.kind },
      { title: "state", of: (each) => el("span", { class: STATES[each.state] || "bad" }, each.state) },
      { title: "partitions", kind: "number", of: (each) => (each.assigned || each.partitions ? `${count(each.partitions)} of ${count(each.assigned)}` : "–") },
      { title: "heartbeat", kind: "number", of: (each) => `${age(each.heartbeat_s)} of ${age(each.ttl_s)}` },
      { title: "since", of: (each) => [when(began(each)), ` (${age(each.up_s)})`] },
      { title: "groups", of: (each) => each.groups.join(", ") },
    ];
    show(main, el("h1", {}, "Members"),
      el("p", { class: "quiet" }, "A supervisor is named by its host and process. A member whose heartbeat is older than its time to live loses its partitions to the others."),
      table(columns, all, { empty: "No supervisor is running: start gapless run." }),
      evictions.length > 0 && section("Given up lately", table([
        { title: "at", kind: "time", of: (each) => when(each.at) },
        { title: "member", of: (each) => each.member },
        { title: "reason", of: (each) => each.reason },
      ], evictions)));
  };
}
