// The overview: problems with their age and remedy, charts of the whole log, groups, the last errors.

import { keep, kept } from "../address.js";
import { follow, historyChart, sparkline } from "../chart.js";
import { cells, el, section, show, table } from "../dom.js";
import { looksOf } from "../history.js";
import { when } from "../reading.js";
import { remedyOf } from "../remedy.js";
import { address, age, byNeed, catchUp, count, name, plural, rate, stateOf } from "../words.js";

export default { name: "", title: "Overview", key: "o", pages: { 0: overview } };

const ROWS = 200; // at most, until all are asked for
const PROBLEMS = 12;
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
  show(top, el("p", { class: "empty" }, "looking at the log …"));
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
  const well = !topics.length ? "All is well; there is no topic yet"
    : behind ? `All is well; ${plural(behind, "group")} at work` : "All is well; nothing waits";
  const lines = problems.slice(0, PROBLEMS).map((each) => el("li", {},
    el("span", { class: `state ${level(each)}` }, el("span", { class: "words" }, each.problem)),
    el("span", { class: "since quiet" }, each.since_s === null ? "" : `for ${age(each.since_s)}`),
    el("span", { class: "remedy" }, remedyOf(each))));
  if (problems.length > PROBLEMS) lines.push(el("li", { class: "more quiet" }, `and ${count(problems.length - PROBLEMS)} more: gapless status`));
  return el("section", { class: `verdict ${problems.length ? level(problems[0]) : "good"}`, id: "verdict", "aria-label": "verdict" },
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
    tile("later", count(later.scheduled), "#/later"));
}

// A column: {title, of, kind, hide, by: the value that it sorts by, up: ascending first}.
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
      (group.dead_letters ? el("a", { class: "bad", href: address(["dead", group.group, "dead"]) }, count(group.dead_letters)) : "0") },
    { title: "waiting", kind: "number", hide: true, by: (group) => group.waiting + group.parked, of: (group) => count(group.waiting + group.parked) },
  ];
}

const RANKS = ["broken", "nobody", "paused", "behind", "running", "idle"];
const href = (group) => address(["groups", group.group, group.topic]);

/** The table of groups: sorted and filtered as the address says; each look draws only the rows that changed. */
function groupList(signal) {
  let groups = [];
  let isAll = false;
  let lags = null; // of the last range, by name; null: those of the looks
  const columns = groupColumns((group) => (lags ? lags.get(name(group)) || [] : looksOf(name(group)).map((look) => look.lag)));
  const find = el("input", { name: "find", type: "search", placeholder: "filter groups", "aria-label": "filter groups", autocomplete: "off", spellcheck: "false" });
  const head = el("tr");
  const body = el("tbody");
  const list = el("table", {}, el("thead", {}, head), body);
  const foot = el("div");
  const drawn = new Map(); // by name: {row, words}

  const draw = () => {
    const [sort, isUp] = sorting(columns);
    const wanted = find.value.trim().toLowerCase();
    const found = groups.filter((group) => name(group).toLowerCase().includes(wanted));
    found.sort(sort ? (a, b) => (isUp ? 1 : -1) * compare(sort.by(a), sort.by(b)) || byNeed(a, b) : byNeed);
    const rows = isAll ? found : found.slice(0, ROWS);
    list.hidden = !rows.length;
    show(head, columns.map((column) => heading(column, column === sort, isUp, draw)));
    place(body, rows.map((group) => drawnRow(drawn, group, columns)));
    const there = new Set(groups.map(name));
    for (const each of drawn.keys()) if (!there.has(each)) drawn.delete(each);
    show(foot, !groups.length ? el("p", { class: "empty" }, "No group yet: a handler makes one when gapless run starts.")
      : !rows.length ? el("p", { class: "empty" }, `No group of ${count(groups.length)} has “${wanted}” in its name.`)
      : rows.length < found.length && el("p", { class: "quiet" }, `${count(ROWS)} of ${count(found.length)} groups `,
        el("button", { type: "button", onclick: () => ((isAll = true), draw()) }, "Show all")));
  };
  find.value = kept("find") || "";
  find.addEventListener("input", () => {
    keep({ find: find.value.trim() });
    draw();
  });
  follow({ of: "lag", points: 60 }, signal, (found) => {
    if (found === undefined) return;
    lags = found && new Map(found.series.filter((each) => each.group !== null).map((each) => [name(each), each.lag]));
    draw();
  });
  return {
    element: el("section", {}, el("div", { class: "titled" }, el("h2", {}, "Groups"), find), list, foot),
    use: (newest) => ((groups = newest), draw()),
  };
}

const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);

/** The column that the address sorts by, if any, and whether it goes up. */
function sorting(columns) {
  const [title, way] = (kept("sort") || "").split(":");
  const column = columns.find((each) => each.title === title);
  return [column, way === "up"];
}

/** A title that sorts: first the way that is asked for most, then the other, then by need again. */
function heading(column, isSorted, isUp, draw) {
  const next = !isSorted ? (column.up ? "up" : "down") : isUp === !!column.up ? (isUp ? "down" : "up") : "";
  const sort = isSorted ? (isUp ? "ascending" : "descending") : null;
  return el("th", { class: [column.kind, column.hide && "wide"].filter(Boolean).join(" ") || null, scope: "col", "aria-sort": sort },
    el("button", { type: "button", onclick: () => (keep({ sort: next && `${column.title}:${next}` }), draw()) }, column.title));
}

/** The row of a group as it was drawn, with new contents in the cells that say something else. */
function drawnRow(drawn, group, columns) {
  const made = cells(columns, group);
  const words = made.map((each) => each.innerHTML);
  const before = drawn.get(name(group));
  const row = before?.row || el("tr", { "data-href": href(group), tabindex: "0" }, made);
  before?.words.forEach((each, i) => each !== words[i] && show(row.cells[i], [...made[i].childNodes]));
  drawn.set(name(group), { row, words });
  return row;
}

/** Put rows into a body in this order, and move only those that are elsewhere: the focus stays. */
function place(body, rows) {
  const wanted = new Set(rows);
  const focused = document.activeElement;
  for (const each of [...body.children]) if (!wanted.has(each)) each.remove();
  let at = body.firstChild;
  for (const row of rows) {
    if (row === at) at = at.nextSibling;
    else body.insertBefore(row, at);
  }
  if (body.contains(focused)) focused.focus({ preventScroll: true }); // an element that is moved loses it
}

function lately({ dead_letters: letters, evictions }) {
  const lines = [
    ...letters.map((each) => ({ at: each.at, what: el("a", { href: `#/dead/${[each.group, each.topic, each.partition, each.offset].map(encodeURIComponent).join("/")}` }, `${each.group}/${each.topic}/${each.partition}@${each.offset}`), why: each.error })),
    ...evictions.map((each) => ({ at: each.at, what: `supervisor ${each.member} was given up`, why: each.reason })),
  ].sort((a, b) => (a.at < b.at ? 1 : -1)).slice(0, 10);
  const columns = [
    { title: "at", kind: "time", of: (line) => when(line.at) },
    { title: "what", of: (line) => line.what },
    { title: "why", of: (line) => line.why },
  ];
  return lines.length > 0 && section("Last errors", table(columns, lines));
}
