// The overview: problems with their age and remedy, charts of the whole log, groups, the last errors.

import { address } from "../address.js";
import { follow, historyChart, sparkline } from "../chart.js";
import { el, section, show, table } from "../dom.js";
import { looksOf } from "../history.js";
import { when } from "../reading.js";
import { remedyOf } from "../remedy.js";
import { sortedTable } from "../sorted.js";
import { age, byNeed, catchUp, count, name, plural, rate, stateOf } from "../words.js";

export default { name: "", title: "Overview", key: "o", pages: { 0: overview } };

const PROBLEMS = 12;
const LATE_S = 60; // more is not well, though nothing else is known
const CHARTS = [
  { of: "published_per_s", title: "published", unit: "/s" },
  { of: "handled_per_s", title: "handled", unit: "/s" },
  { of: "lag", title: "lag", unit: "events" },
  { of: "lag_s", title: "behind", unit: "s" },
];

function overview({ main, signal }) {
  const top = el("div");
  const figures = el("div");
  const late = el("div");
  const groups = groupList(signal);
  const chart = historyChart({}, CHARTS, signal);
  main.append(el("h1", { class: "unseen" }, "Overview"), top, chart, figures, groups.element, late);
  return (status) => {
    show(top, verdict(status));
    chart.live(status.totals);
    show(figures, tiles(status));
    groups.use(status.groups);
    show(late, lately(status));
  };
}

function verdict({ problems, groups, topics }) {
  const level = (each) => (each.is_bad ? "bad" : "warn");
  const behind = groups.filter((group) => group.lag > 0).length;
  const [last] = [...groups].sort((a, b) => (b.lag_s || 0) - (a.lag_s || 0));
  const isLate = last?.lag_s >= LATE_S;
  const well = !topics.length ? "All is well; there is no topic yet"
    : isLate ? ["Nothing is broken, but ", el("a", { href: href(last) }, name(last)), ` is ${age(last.lag_s)} behind`]
    : behind ? `All is well; ${plural(behind, "group")} at work` : "All is well; nothing waits";
  const lines = problems.slice(0, PROBLEMS).map((each) => el("li", {},
    el("span", { class: `state ${level(each)}` }, el("span", { class: "words" }, each.problem)),
    el("span", { class: "since quiet" }, each.since_s === null ? "" : `for ${age(each.since_s)}`),
    el("span", { class: "remedy" }, remedyOf(each))));
  if (problems.length > PROBLEMS) lines.push(el("li", { class: "more quiet" }, `and ${count(problems.length - PROBLEMS)} more: gapless status`));
  return el("section", { class: `verdict ${problems.length ? level(problems[0]) : isLate ? "warn" : "good"}`, id: "verdict", "aria-label": "verdict" },
    el("strong", {}, problems.length ? `${plural(problems.length, "thing")} to look at` : well),
    !topics.length && el("p", { class: "remedy" }, remedyOf({ remedy: "gapless topics create orders makes one", command: "gapless topics create orders", page: [] })),
    lines.length > 0 && el("ul", {}, lines));
}

function tiles({ totals, later }) {
  const tile = (what, value, href, level) => el(href ? "a" : "div", { class: "tile", href }, el("b", { class: level }, value), el("span", {}, what));
  return el("div", { class: "tiles row" },
    tile("dead", count(totals.dead_letters), "#/dead", totals.dead_letters > 0 && "bad"),
    tile("waiting", count(totals.waiting), "#/dead?states=waiting"),
    tile("parked", count(totals.parked), "#/dead?states=parked"),
    tile("events", count(totals.events), "#/topics"),
    later && tile("later", count(later.scheduled), "#/later"));
}

function groupColumns(lagsOf) {
  return [
    { title: "group", by: name, up: true, of: (group) => el("a", { href: href(group) }, name(group)) },
    { title: "state", by: (group) => RANKS.indexOf(stateOf(group).state), up: true, of: (group) => {
      const { state, part, level } = stateOf(group);
      return [el("span", { class: `state ${level}` }, state), part && el("span", { class: "second" }, ` ${part}`)];
    } },
    { title: "lag", kind: "number", by: (group) => group.lag, of: (group) =>
      [el("span", { class: "wide" }, sparkline(lagsOf(group), `lag of ${name(group)}`)), el("span", { class: "figure" }, count(group.lag))] },
    { title: "behind", kind: "number", by: (group) => group.lag_s, of: (group) => (group.lag ? age(group.lag_s) : "–") },
    { title: "ev/s", kind: "number", hide: true, by: (group) => group.handled_per_s ?? -1, of: (group) => rate(group.handled_per_s) },
    { title: "catch up", kind: "number", hide: true, by: (group) => group.catch_up_s ?? -1, of: (group) =>
      (["running", "behind"].includes(stateOf(group).state) ? catchUp(group) : "–") },
    { title: "members", kind: "number", hide: true, by: (group) => group.members + group.workers, of: (group) =>
      (group.mode === "queue" ? [plural(group.workers, "worker"), el("div", { class: "second" }, `${count(group.in_hand)} in hand, ${count(group.open)} open`)] : count(group.members)) },
    { title: "dead", kind: "number", by: (group) => group.dead_letters, of: (group) =>
      (group.dead_letters ? el("a", { class: "bad", href: address(["dead"], { group: group.group, states: "dead" }) }, count(group.dead_letters)) : "0") },
    { title: "waiting", kind: "number", hide: true, by: (group) => group.waiting + group.parked, of: (group) => count(group.waiting + group.parked) },
  ];
}

const RANKS = ["broken", "nobody", "paused", "behind", "running", "idle"];
const href = (group) => address(["groups", group.group, group.topic]);

/** The table of groups; its small charts are of the last hour. */
function groupList(signal) {
  let lags = null; // by name; null: those of the looks
  const columns = groupColumns((group) => (lags ? lags.get(name(group)) || [] : looksOf(name(group)).map((look) => look.lag)));
  const { find, element, use, draw } = sortedTable({
    word: "group", nameOf: name, href, columns, order: byNeed, empty: "No group yet: a handler makes one when gapless run starts.",
  });
  follow({ of: "lag", since: "1h", points: 60 }, signal, (found) => {
    if (found === undefined) return;
    lags = found && new Map(found.series.filter((each) => each.group !== null).map((each) => [name(each), each.lag]));
    draw();
  });
  return { element: el("section", {}, el("div", { class: "titled" }, el("h2", {}, "Groups"), find), element), use };
}

function lately({ dead_letters: letters, evictions }) {
  const lines = [
    ...letters.map((each) => ({ at: each.at, what: el("a", { href: address(["dead", each.group, each.topic, each.partition, each.offset]) }, `${each.group}/${each.topic}/${each.partition}@${each.offset}`), why: each.error })),
    ...evictions.map((each) => ({ at: each.at, what: `supervisor ${each.member} was given up`, why: each.reason })),
  ].sort((a, b) => (a.at < b.at ? 1 : -1)).slice(0, 10);
  const columns = [
    { title: "at", kind: "time", of: (line) => when(line.at) },
    { title: "place", of: (line) => line.what },
    { title: "error", of: (line) => line.why },
  ];
  return lines.length > 0 && section("Last errors", table(columns, lines));
}
