// Members: supervisors and clients, with their work and their last sign of life; other programs.

import { el, section, show, table } from "../dom.js";
import { reading, when } from "../reading.js";
import { age, count } from "../words.js";

export default { name: "members", title: "Members", key: "m", menu: "more", pages: { 0: members } };

const STATES = { active: "good", draining: "warn" };
const COLUMNS = [
  { title: "member", of: (each) => each.member },
  { title: "state", of: (each) => el("span", { class: `state ${STATES[each.state] || "bad"}` }, each.state) },
  { title: "kind", of: (each) => each.kind },
  { title: "partitions", kind: "number", of: (each) => (each.assigned || each.partitions ? `${count(each.partitions)} of ${count(each.assigned)}` : "–") },
  { title: "heartbeat", kind: "number", of: (each) => `${age(each.heartbeat_s)} of ${age(each.ttl_s)}` },
  { title: "up", of: (each) => [age(each.up_s), " since ", when(each.began)] },
  { title: "version", of: (each) => each.version && [each.version, el("div", { class: "second" }, `Python ${each.python}`)] },
  { title: "groups", of: (each) => each.groups.join(", ") },
];

function members({ main, signal }) {
  const live = el("div");
  const programs = el("div");
  main.append(el("h1", {}, "Members"), live, programs);
  reading({ main: programs, signal }, "", [["Programs with sessions in the database", "/v1/programs", (all) => table([
    { title: "kind", of: (each) => each.kind },
    { title: "role", of: (each) => each.role },
    { title: "host", of: (each) => each.host },
    { title: "sessions", kind: "number", of: (each) => count(each.sessions) },
    { title: "since", of: (each) => when(each.since) },
  ], all, { empty: "None: not even this gateway has a session." })]]);
  return ({ members: all, evictions, taken_at: taken }) => {
    const rows = all.map((each) => ({ ...each, began: new Date(new Date(taken) - each.up_s * 1000).toISOString() }));
    show(live,
      el("p", { class: "quiet" }, "A supervisor is named by its host and process. A member whose heartbeat is older than its time to live loses its partitions to the others."),
      table(COLUMNS, rows, { empty: "No supervisor is running: start gapless run." }),
      evictions.length > 0 && section("Given up lately", table([
        { title: "at", kind: "time", of: (each) => when(each.at) },
        { title: "member", of: (each) => each.member },
        { title: "reason", of: (each) => each.reason },
      ], evictions)));
  };
}
