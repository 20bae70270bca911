// Dead letters: counted by cause, the list of a filter, a selection of it, and the outcome of redrives.

import { address } from "../address.js";
import { get, post } from "../api.js";
import { action } from "../ask.js";
import { el, say, section, show, table } from "../dom.js";
import { chips, filterForm } from "../filter.js";
import { inTurn, when } from "../reading.js";
import { count, plural } from "../words.js";
import { causes, OPEN } from "./causes.js";
import { letter } from "./letter.js";

export default { name: "dead", title: "Dead letters", key: "d", pages: { 0: dead, 4: letter } };

const PAGE = 50; // units of a page
const CHANGED_MAX = 10_000; // of one request
const CAUSES_SHOWN = 20;
const STATES = [["dead"], ["waiting"], ["parked"], ["redriven"], ["discarded"], [OPEN, "dead, waiting, parked"]];
const FIELDS = [
  { name: "group", title: "group" }, { name: "topic", title: "topic" }, { name: "key", title: "key" }, { name: "error", title: "error contains" },
  { name: "type", title: "type" }, { name: "since", title: "since (time, 2h, 7d)" }, { name: "until", title: "until (time)" },
];
const CAUSE = { name: "cause", title: "cause" }; // chosen in the table of causes
const FILTER_CHARACTERS = 100; // of a value, in a question
const href = (unit) => address(["dead", unit.group, unit.topic, unit.partition, unit.offset]);
const place = (unit) => `${unit.group}/${unit.topic}/${unit.partition}@${unit.offset}`;

function dead({ main, query, signal }) {
  const asked = Object.fromEntries(query); // which Back brings again
  const { by = "error", from = "0", ...filter } = asked;
  const wanted = { states: "dead", ...filter };
  const skip = Math.max(0, Number(from) || 0);
  const [counted, list, outcome, newer] = [el("div"), el("div"), el("div"), el("p", { class: "quiet", role: "status" })];
  const chosen = new Map(); // units by their places
  let read = null; // {at, units}: the list as it was read
  const load = inTurn(async () => {
    try {
      const [rows, units] = await Promise.all([
        get("/v1/dlq/summary", { ...wanted, by }, signal), get("/v1/dlq", { ...wanted, limit: PAGE, skip }, signal),
      ]);
      read = { at: new Date(), units: rows[0]?.total || 0 };
      show(newer);
      show(counted, rows.length > 0 && groups(rows, asked, wanted, by));
      show(list, selection(rows, units, chosen, wanted, () => (chosen.clear(), follow.soon())), pages(asked, skip, units.length, rows[0]?.total));
    } catch (error) {
      if (!signal.aborted) show(list, el("p", { class: "bad" }, error.message));
    }
  });
  const follow = following(outcome, { group: wanted.group, topic: wanted.topic }, signal);
  addEventListener("look", load, { signal });
  addEventListener("looked", ({ detail }) => {
    const more = read && unitsOf(detail, wanted) - read.units;
    say(newer, more > 0 && [`${count(more)} more since ${read.at.toLocaleTimeString()} `, el("button", { type: "button", onclick: load }, "Show")]);
  }, { signal });
  main.append(...[el("h1", {}, "Dead letters"), filterForm([...FIELDS, { name: "states", title: "state", options: STATES }], wanted, (given) => address(["dead"], { cause: asked.cause, by: asked.by, ...given })),
    chips([...FIELDS, CAUSE], asked, ({ from: _, ...rest }) => address(["dead"], rest)), outcome, newer, counted, list].filter(Boolean));
  load();
  follow.soon();
}

const COUNTED = { dead: "dead_letters", waiting: "waiting", parked: "parked" };

/** The units of a filter by a look; null: the look does not count them. */
function unitsOf({ groups }, { group, topic, states, ...others }) {
  const fields = states.split(",").map((each) => COUNTED[each]);
  if (Object.values(others).some(Boolean) || fields.includes(undefined)) return null;
  const own = groups.filter((each) => (!group || each.group === group) && (!topic || each.topic === topic));
  return own.reduce((sum, each) => sum + fields.reduce((all, field) => all + each[field], 0), 0);
}

function groups(rows, asked, wanted, by) {
  const { from, ...rest } = asked;
  const link = (each) => el("a", { href: address(["dead"], { ...rest, by: each }), "aria-current": each === by ? "true" : null }, `by ${each}`);
  return section(plural(rows[0].total, "unit"), el("p", { class: "chips" }, ["error", "type", "day"].map(link)),
    causes(rows.slice(0, CAUSES_SHOWN), wanted, { by }),
    rows.length > CAUSES_SHOWN && el("p", { class: "quiet" }, `and ${count(rows.length - CAUSES_SHOWN)} more`));
}

/** The list with its check boxes, and the changes of those that are chosen, or of all that the filter finds. */
function selection(rows, units, chosen, wanted, changing) {
  const there = new Map(units.map((unit) => [place(unit), unit]));
  for (const each of [...chosen.keys()]) there.has(each) ? chosen.set(each, there.get(each)) : chosen.delete(each);
  const isAny = wanted.states === "dead" && Object.values(wanted).filter(Boolean).length === 1;
  if (units.length === 0) return el("p", { class: "empty" }, isAny ? "There are no dead letters." : "No unit fits the filter.");
  const bar = el("div");
  const boxes = units.map((unit) => el("input", { type: "checkbox", "aria-label": `choose ${place(unit)}`, onchange: (event) => choose([unit], event.target.checked) }));
  const whole = el("input", { type: "checkbox", "aria-label": "choose all of this page", onchange: (event) => choose(units, event.target.checked) });
  const choose = (some, isOn) => {
    for (const unit of some) isOn ? chosen.set(place(unit), unit) : chosen.delete(place(unit));
    boxes.forEach((box, i) => (box.checked = chosen.has(place(units[i]))));
    whole.checked = chosen.size === units.length;
    whole.indeterminate = chosen.size > 0 && !whole.checked;
    show(bar, changes(chosen.size ? some_of([...chosen.values()]) : all_of(rows, wanted), changing));
  };
  choose([], false);
  const columns = [{ title: "chosen", of: (unit) => boxes[units.indexOf(unit)] }, ...COLUMNS];
  return [bar, el("label", { class: "whole" }, whole, "all of this page"), table(columns, units, { href })];
}

const COLUMNS = [
  { title: "unit", kind: "unit", of: (unit) => el("a", { href: href(unit) }, place(unit)) },
  { title: "state", kind: "word", of: (unit) => unit.state },
  { title: "failed", kind: "time", of: (unit) => when(unit.failed) },
  { title: "attempts", kind: "number", of: (unit) => unit.attempts },
  { title: "type", kind: "place", of: (unit) => unit.event_type },
  { title: "key", kind: "place", of: (unit) => unit.key },
  { title: "error", of: (unit) => (unit.error || "").trimEnd().split("\n").pop() },
];

const names = (rows) => [...new Set(rows.map((row) => `${row.group}/${row.topic}`))];
const listed = (all) => `${all.slice(0, 5).join(", ")}${all.length > 5 ? " and others" : ""}`;

/** The units that were checked: named by their places. */
const some_of = (units) => ({ title: `the ${plural(units.length, "chosen unit")}`, said: `${plural(units.length, "unit")} of ${listed(names(units))}`, body: { places: units.map(place) } });

/** All units that the filter found: the gateway refuses when it finds another number of them. */
function all_of(rows, wanted) {
  const total = rows[0]?.total || 0;
  const many = total > CHANGED_MAX ? `the newest ${count(CHANGED_MAX)} of ${plural(total, "unit")}` : plural(total, "unit");
  const only = [...FIELDS.slice(2), CAUSE].filter(({ name }) => wanted[name]).map(({ name, title }) => `, ${title.split(" (")[0]} ${wanted[name].slice(0, FILTER_CHARACTERS)}`);
  return { title: "all of these", said: `${many} of ${listed(names(rows))}${only.join("")}`, body: { ...wanted, expected: total } };
}

function changes({ title, said, body }, changing) {
  const left = (answer) => (answer.left_alone ? `, ${count(answer.left_alone)} left alone` : "");
  const change = (where, more) => {
    changing(); // many units take a while: the outcome counts them meanwhile
    return post(where, { ...body, ...more });
  };
  return el("div", { class: "buttons" },
    action(`Redrive ${title}`, { question: `Redrive ${said}?`, text: "They are handled again, in their order.", yes: "Redrive", done: (answer) => `${plural(answer.units, "unit")} redriven${left(answer)}` },
      () => change("/v1/dlq/redrive-all", {})),
    action(`Discard ${title}`, { question: `Discard ${said} for good?`, danger: true, fields: [{ name: "reason", title: "reason", required: true }], yes: "Discard", done: (answer) => `${plural(answer.units, "unit")} discarded${left(answer)}` },
      (given) => change("/v1/dlq/discard-all", { reason: given.reason })));
}

function pages(asked, skip, shown, total) {
  if (!total || (skip === 0 && total <= shown)) return null;
  const to = (from) => address(["dead"], { ...asked, from: from || "" });
  return el("p", { class: "chips" },
    skip > 0 && el("a", { href: to(Math.max(0, skip - PAGE)) }, "newer"),
    `${count(skip + 1)} to ${count(skip + shown)} of ${count(total)}`,
    skip + shown < total && el("a", { href: to(skip + PAGE) }, "older"));
}

const FOLLOW_MS = 2000;

/** Show the redrives of the last hour, again and again until all of their units were handled or failed. */
function following(into, of, signal) {
  let next = 0;
  const soon = () => {
    clearTimeout(next);
    next = setTimeout(look, 0);
  };
  const look = async () => {
    if (signal.aborted) return;
    try {
      const rows = await get("/v1/dlq/redrives", { ...of, since: "1h" }, signal);
      show(into, rows.length > 0 && section("Redrives of the last hour", rows.map(redrive)));
      if (rows.some((row) => row.unhandled)) next = setTimeout(look, FOLLOW_MS);
    } catch (error) {
      if (!signal.aborted && error.status !== 403) show(into, el("p", { class: "bad" }, error.message)); // the list says that
    }
  };
  addEventListener("look", soon, { signal });
  signal.addEventListener("abort", () => clearTimeout(next));
  return { soon };
}

function redrive(row) {
  const link = (n, words, states) => (n ? el("a", { href: address(["dead"], { group: row.group, topic: row.topic, states, ...(states === "redriven" ? {} : { since: row.began }) }) }, `${count(n)} ${words}`) : `0 ${words}`);
  return el("div", { class: "redrive" },
    el("progress", { max: row.units, value: row.units - row.unhandled, "aria-label": `redrive of ${row.group}/${row.topic}` }),
    el("span", {}, `${row.group}/${row.topic}: ${count(row.handled)} of ${plural(row.units, "unit")} handled again, `,
      link(row.failed, "failed again", "dead,waiting"), `, ${count(row.unhandled)} to come; asked by ${row.who}, `, when(row.asked)));
}
