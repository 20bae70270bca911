// The overview: problems, lags, owners.

import { el, section, show, table } from "../dom.js";
import { looksOf, plot } from "../history.js";
import { address, age, byNeed, catchUp, count, name, plural, rate, said } from "../words.js";

export default { name: "", title: "Overview", key: "o", pages: { 0: overview } };

function overview({ main }) {
  return (status) => {
    show(main, verdict(status), tiles(status), groups(status), members(status), lately(status));
  };
}

function verdict({ problems: found, groups }) {
  const level = (each) => (each.is_bad ? "bad" : "warn");
  const behind = groups.filter((group) => group.lag > 0).length;
  const text = found.length
    ? `${plural(found.length, "thing")} to look at`
    : behind ? `All is well; ${plural(behind, "group")} at work` : "All is well; nothing waits";
  const lines = found.slice(0, 12).map((each) =>
    el("li", { class: level(each) }, each.page.length ? el("a", { href: address(each.page), class: level(each) }, said(each)) : said(each)));
  if (found.length > 12) lines.push(el("li", { class: "quiet" }, `and ${found.length - 12} more`));
  return el("div", { class: `verdict ${found.length ? level(found[0]) : "good"}`, id: "verdict" }, el("strong", {}, text), lines.length > 0 && el("ul", {}, lines));
}

function tiles({ totals, sequencer, held, chunks, later }) {
  const tile = (what, value, bad) => el("div", { class: "tile" }, el("b", { class: bad ? "bad" : null }, value), el("span", {}, what));
  const since = (n, seconds) => `${count(n)}${n ? ` (${age(seconds)})` : ""}`;
  const words = { awake: "running", asleep: "idle", nobody: "nobody" };
  return el("div", { class: "tiles" },
    tile("lag", since(totals.lag, totals.lag_s)),
    tile("published", `${rate(totals.published_per_s)}/s`),
    tile("dead", count(totals.dead_letters), totals.dead_letters > 0),
    tile("handled", `${rate(totals.handled_per_s)}/s`),
    tile("events", count(totals.events)),
    tile("sequencer", words[sequencer.state], sequencer.state === "nobody"),
    tile("pending", since(totals.pending, totals.pending_s)),
    tile("retention", held.length ? "waiting" : "idle"),
    tile("chunks", count(chunks)),
    tile("later", count(later.scheduled)));
}

function groups(status) {
  const columns = [
    { title: "group", of: (group) => el("a", { href: href(group) }, name(group), group.mode === "queue" ? " (queue)" : "") },
    { title: "lag", kind: "number", of: (group) => count(group.lag) },
    { title: "behind", kind: "number", of: (group) => (group.lag ? age(group.lag_s) : "–") },
    { title: "ev/s", kind: "number", hide: true, of: (group) => rate(group.handled_per_s) },
    { title: "catch up", kind: "number", of: catchUp },
    { title: "members", kind: "number", hide: true, of: (group) => count(group.mode === "queue" ? group.workers : group.members) },
    { title: "dead", kind: "number", of: (group) => (group.dead_letters ? el("span", { class: "bad" }, count(group.dead_letters)) : "0") },
    { title: "waiting", kind: "number", hide: true, of: (group) => count(group.waiting + group.parked) },
    { title: "trend", hide: true, of: (group) => plot(looksOf(name(group))) },
  ];
  const rows = [...status.groups].sort(byNeed);
  return section("Groups", table(columns, rows, { href, dense: true, mark: (group) => (group.stopped ? "stopped" : null), empty: "No group yet: a handler makes one when gapless run starts." }));
}

const href = (group) => address(["groups", group.group, group.topic]);

function members({ members }) {
  const columns = [
    { title: "member", of: (each) => each.member },
    { title: "state", of: (each) => el("span", { class: each.state === "active" ? "good" : "warn" }, each.state) },
    { title: "kind", hide: true, of: (each) => each.kind },
    { title: "partitions", kind: "number", of: (each) => each.assigned || each.partitions ? `${each.partitions} of ${each.assigned}` : "–" },
    { title: "heartbeat", kind: "number", of: (each) => age(each.heartbeat_s) },
    { title: "up", kind: "number", hide: true, of: (each) => age(each.up_s) },
    { title: "groups", hide: true, of: (each) => each.groups.join(", ") },
  ];
  return section("Members", table(columns, members, { empty: "No supervisor is running: start gapless run." }));
}

function lately({ dead_letters: letters, evictions }) {
  const lines = [
    ...letters.map((each) => ({ at: each.at, what: el("a", { href: `#/dead/${[each.group, each.topic, each.partition, each.offset].map(encodeURIComponent).join("/")}` }, `${each.group}/${each.topic}/${each.partition}@${each.offset}`), why: each.error })),
    ...evictions.map((each) => ({ at: each.at, what: `supervisor ${each.member} was given up`, why: each.reason })),
  ].sort((a, b) => (a.at < b.at ? 1 : -1)).slice(0, 10);
  const columns = [
    { title: "at", kind: "time", of: (line) => new Date(line.at).toLocaleTimeString() },
    { title: "what", of: (line) => line.what },
    { title: "why", of: (line) => line.why },
  ];
  return lines.length > 0 && section("Last errors", table(columns, lines));
}
