// The server: the database, the sequencer, and the log's chunks.

import { el, facts, section, show } from "../dom.js";
import { when } from "../reading.js";
import { age, count, plural, rate } from "../words.js";

export default { name: "server", title: "Server", key: "v", menu: "more", pages: { 0: server } };

function server({ main }) {
  main.append(el("h1", {}, "Server"));
  const body = el("div");
  main.append(body);
  return (status) => show(body, database(status), machinery(status));
}

function database({ database, taken_at }) {
  const opened = database.oldest_transaction_s;
  return section("Database", facts([
    ["name", database.name],
    ["PostgreSQL", database.server_version],
    ["started", when(database.started_at)],
    ["its clock", when(taken_at)],
    ["sessions", count(database.sessions)],
    ["transactions", `${count(database.commits)} committed, ${count(database.rollbacks)} rolled back`],
    ["oldest transaction", opened === null ? "none is open" : `${age(opened)}, ${database.oldest_transaction || "a client"}`],
  ]));
}

function machinery({ totals, sequencer, held, chunks, later, topics }) {
  const words = { awake: "running", asleep: "idle", nobody: "nobody" };
  const tile = (what, value, bad) => el("div", { class: "tile" }, el("b", { class: bad ? "bad" : null }, value), el("span", {}, what));
  return section("Log",
    el("div", { class: "tiles" },
      tile("published", `${rate(totals.published_per_s)}/s`),
      tile("events", count(totals.events)),
      tile("sequencer", words[sequencer.state], sequencer.state === "nobody"),
      tile("pending", `${count(totals.pending)}${totals.pending ? ` (${age(totals.pending_s)})` : ""}`),
      tile("retention", held.length ? "waiting" : "idle"),
      tile("chunks", count(chunks)),
      later && tile("later", count(later.scheduled))),
    facts([
      ["sequencer run", `number ${count(sequencer.run)}, ${plural(sequencer.run_events, "event")}, `, when(sequencer.ran_at)],
      ["sequencer session", sequencer.pid === null ? "none: start gapless run, or gapless gateway" : `pid ${sequencer.pid}`],
      ["topics", count(topics.length)],
      ...held.map((reason) => ["retention waits", reason]),
    ].map(([title, ...values]) => [title, el("span", {}, values)])));
}
