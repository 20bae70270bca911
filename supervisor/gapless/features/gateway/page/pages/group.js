// A group on a topic: its state, the work of each partition, errors by cause, members, filter; pause, resume, seek.

import { address } from "../address.js";
import { get, mayOperate, path, post } from "../api.js";
import { action, tell } from "../ask.js";
import { historyChart } from "../chart.js";
import { el, facts, section, show, table } from "../dom.js";
import { inTurn, when } from "../reading.js";
import { remedyOf } from "../remedy.js";
import { age, catchUp, count, plural, rate } from "../words.js";
import { causes, OPEN } from "./causes.js";

export default { name: "groups", title: "", pages: { 2: group } };

const COUNT_MAX = 10_000; // dead letters of a partition: a look counts no further
const CAUSES_MS = 10_000; // counting letters costs more than a look

function group({ main, parts: [groupName, topic], signal }) {
  const place = { group: groupName, topic };
  const parts = Object.fromEntries(["state", "buttons", "facts", "errors", "partitions", "workers", "members", "filter"].map((each) => [each, el("div")]));
  const charts = historyChart(place, LINES, signal);
  const found = el("div", {}, parts.state, parts.buttons, parts.facts, charts, parts.errors, parts.partitions, parts.workers, parts.members, parts.filter);
  const absent = el("p", { class: "empty", hidden: true }, "There is no such group.");
  main.append(el("h1", {}, `${groupName}/${topic}`), absent, found);
  const read = readers(place, parts, signal);
  let drawn = null; // the buttons of a state stay, and with them the answers to their questions
  return (status) => {
    const line = status.groups.find((each) => each.group === groupName && each.topic === topic);
    absent.hidden = !(found.hidden = !line); // a look that was taken before it was made shows none
    if (!line) return;
    const rows = status.partitions.filter((each) => each.group === groupName && each.topic === topic);
    const here = ["groups", groupName, topic].join("\n");
    const problems = status.problems.filter((each) => each.page.join("\n") === here);
    show(parts.state, stateOf(line, rows), problems.map((each) => el("p", { class: "remedy" }, remedyOf({ ...each, page: [] }))));
    if (drawn !== line.paused) show(parts.buttons, buttons(groupName, topic, line));
    drawn = line.paused;
    charts.live(line);
    show(parts.facts, facts(figures(line, rows.some((row) => row.dead_letters >= COUNT_MAX))));
    show(parts.members, section("Members", members(status.members.filter((each) => each.groups.includes(groupName)))));
    read(rows);
  };
}

const LINES = [
  { of: "lag", title: "lag", unit: "events" }, { of: "lag_s", title: "behind", unit: "s" }, { of: "handled_per_s", title: "handled", unit: "/s" },
  { of: "dead_letters", title: "dead letters", unit: "units" }, { of: "members", title: "members", unit: "" },
];

/** Read the rest of the page: the work with each look, errors and the filter now and then. */
function readers(place, parts, signal) {
  let work = [];
  let rows = [];
  let counted = null;
  let due = 0;
  const tries = async (into, act) => {
    try {
      await act();
    } catch (error) {
      if (!signal.aborted) show(into, el("p", { class: "bad" }, error.message));
    }
  };
  const draw = () => {
    show(parts.partitions, section("Partitions", partitions(rows, work)));
    show(parts.workers, workers(work));
    if (counted) show(parts.errors, section("Errors", stopped(rows), counted.length || !rows.some((row) => row.error) ? causes(counted, { ...place, states: OPEN }, { empty: "No unit is set aside." }) : null));
  };
  const more = inTurn(() => tries(parts.errors, async () => {
    due = Date.now() + CAUSES_MS;
    counted = await get("/v1/dlq/summary", { ...place, states: OPEN, limit: 20 }, signal);
    const takes = (await get("/v1/groups", {}, signal)).find((each) => each.group === place.group && each.topic === place.topic)?.takes;
    show(parts.filter, section("Filter", filter(place, takes)));
    draw();
  }));
  addEventListener("look", more, { signal });
  return async (found) => {
    rows = found;
    if (Date.now() > due) more();
    await tries(parts.partitions, async () => {
      work = await get(`${path("groups", place.group)}/work`, { topic: place.topic }, signal);
      draw();
    });
  };
}

/** The state in a sentence, with since when. */
function stateOf(line, rows) {
  const first = (of) => rows.map((row) => row[of]).filter(Boolean).sort()[0];
  const some = (n) => (n === line.partitions ? "" : ` in ${n} of ${plural(line.partitions, "partition")}`);
  const said = (kind, ...words) => el("p", { class: `standing ${kind}` }, words);
  if (line.stopped) return said("bad", `Stopped${some(line.stopped)}`, since(first("error_at")), ": ", why(rows.find((row) => row.error)));
  if (line.paused) return said("warn", `Paused${some(line.paused)} since `, when(first("paused_at")), `, by ${rows.find((row) => row.pause).pause}`);
  if (line.unserved) return said(line.lag ? "bad" : "warn", `Nobody works on it${some(line.unserved)}${line.lag ? `, ${behind(line)}` : ""}`);
  if (line.lag_s >= 1) return said("warn", `${behind(line)[0].toUpperCase()}${behind(line).slice(1)}${outlook(line)}`);
  return said("good", "Running, and up to date");
}

const outlook = (line) => (line.catch_up_s ? `, up to date in ${age(line.catch_up_s)}` : line.lag_per_s > 0 ? ", and more with each second" : "");
const why = ({ error }) => error.replace(/^stopped: /, "");
const since = (at) => at && [" since ", when(at)];
const behind = (line) => `${plural(line.lag, "event")} behind, the oldest for ${age(line.lag_s)}`;

function figures(line, isMore) {
  const set = (state, n) => (n ? el("a", { href: address(["dead"], { group: line.group, topic: line.topic, states: state }) }, `${count(n)} ${state}`) : `0 ${state}`);
  return [
    ["lag", `${count(line.lag)}${line.lag ? ` (${age(line.lag_s)})` : ""}`],
    [line.mode === "queue" ? "throughput" : "handled", `${rate(line.handled_per_s)} events/s`],
    [line.mode === "queue" ? "time to empty" : "catch up", catchUp(line)],
    ...(line.mode === "queue" ? [
      ["open", count(line.open)], ["in hand", count(line.in_hand)], ["waiting", count(line.waiting)], ["lapsed", count(line.lapsed)],
      ["workers", `${count(line.workers)}${line.in_work ? `, ${count(line.in_work)} at work` : ""}`],
    ] : []),
    ["set aside", el("span", {}, set("dead", line.dead_letters), isMore && " at least", ", ", set("waiting", line.waiting), ", ", set("parked", line.parked))],
  ];
}

/** The current errors of partitions, by their text without numbers. */
function stopped(rows) {
  const found = Map.groupBy(rows.filter((row) => row.error), (row) => row.error.replace(/[0-9]+/g, "#"));
  return [...found.values()].map((of) => el("p", { class: "bad" }, `${plural(of.length, "partition")} (${of.map((row) => row.partition).join(", ")}) stopped`, since(of.map((row) => row.error_at).sort()[0]), `: ${why(of[0])}`));
}

const doing = (row) => el("span", {}, row.doing, since(row.since));
const WORKER = [{ title: "session", kind: "number", of: (row) => row.pid }, { title: "work", of: doing }];
const IN_HAND = [
  { title: "event", kind: "unit", of: (row) => el("a", { href: address(["topics", row.topic, row.partition, row.offset]) }, `${row.partition}@${row.offset}`) },
  { title: "holder", of: (row) => row.member },
  { title: "since, or renewed", kind: "time", of: (row) => when(row.since) },
  { title: "attempt", kind: "number", of: (row) => count(row.attempts) },
];
const isInHand = (row) => row.doing === "in hand";

/** The workers of a queue, and the events in their hands: sessions rest while calls without a transaction last. */
function workers(work) {
  const held = work.filter(isInHand).sort((a, b) => Date.parse(a.since) - Date.parse(b.since));
  const sessions = work.filter((row) => row.partition === null && !(held.length && row.doing === "at rest"));
  return [
    sessions.length > 0 && section("Workers", table(WORKER, sessions)),
    held.length > 0 && section("In hand", table(IN_HAND, held)),
  ];
}

function partitions(rows, work) {
  const isShared = rows[0]?.mode === "queue"; // all workers take from each partition
  const by = Object.fromEntries(work.filter((each) => each.partition !== null && !isInHand(each)).map((each) => [each.partition, each]));
  const columns = [
    { title: "partition", kind: "number", of: (row) => row.partition },
    !isShared && { title: "member", kind: "place", of: (row) => row.member || "nobody" },
    !isShared && { title: "session", kind: "number", of: (row) => by[row.partition]?.pid },
    !isShared && { title: "work", of: (row) => work.length > 0 && occupation(row, by[row.partition]) },
    { title: "current offset", kind: "number", of: (row) => count(row.current_offset) },
    { title: "log end offset", kind: "number", of: (row) => count(row.log_end_offset) },
    { title: "lag", kind: "number", of: (row) => count(row.lag) },
    { title: "behind", kind: "number", of: (row) => (row.lag ? age(row.lag_s) : "–") },
    { title: "dead", kind: "number", of: (row) => count(row.dead_letters) },
    { title: "state", kind: "word", of: (row) => el("span", { class: row.error ? "bad" : ["unserved", "lost", "paused"].includes(row.state) ? "warn" : null }, row.error ? "stopped" : row.state) },
  ].filter(Boolean);
  const needy = [...rows].sort((a, b) => !!b.error - !!a.error || b.lag - a.lag || a.partition - b.partition);
  return table(columns, needy);
}

/** The work of a partition: its unit and attempt, the time of the next one, the reason why it waits. */
function occupation(row, work) {
  if (!work) return row.pause ? `paused by ${row.pause}` : "–";
  const at = row.error ? row.current_offset : work.offset; // the first one that is not handled
  return el("span", {},
    row.error || (row.pause ? `${work.doing === "paused" ? "" : `${work.doing}, `}paused by ${row.pause}` : doing(work)),
    at !== null && [" at offset ", el("a", { href: address(["topics", row.topic, row.partition, at]) }, count(at))], work.attempts > 1 && `, attempt ${count(work.attempts)}`,
    row.waits_for.length > 0 && `; after ${row.waits_for.join(", ")}`,
    work.waiting > 0 && [`; ${plural(work.waiting, "unit")} to retry, the next at `, when(work.next_attempt)]);
}

const members = (rows) => table([
  { title: "member", of: (row) => row.member },
  { title: "kind", of: (row) => (row.kind === "client" ? "client over the gateway or SQL" : "supervisor") },
  { title: "state", of: (row) => el("span", { class: row.state === "active" ? null : "warn" }, row.state) },
  { title: "partitions", kind: "number", of: (row) => `${count(row.partitions)} of ${count(row.assigned)}` },
  { title: "heartbeat", kind: "number", of: (row) => `${age(row.heartbeat_s)} ago` },
  { title: "up", kind: "number", of: (row) => age(row.up_s) },
], rows, { empty: "No supervisor or client is a member of this group." });

function filter({ group, topic }, takes) {
  const where = `${path("groups", group)}/filter`;
  return [
    el("p", {}, takes ? `It takes ${takes}.` : "It takes all events."),
    takes?.startsWith("subscriptions:") ? null : el("div", { class: "buttons" },
      action("Filter …", {
        question: `Which events does ${group}/${topic} take?`, text: "From the next claim on; other events are passed.", done: "the filter is set",
        fields: [{ name: "event_types", title: "types, with commas; * stands for any characters" }, { name: "where", title: "jsonpath predicate, such as $.total > 5" }],
      }, ({ event_types, where: predicate }) => post(where, { topic, ...(event_types && { event_types }), ...(predicate && { where: predicate }) })),
      takes && action("Take all events", { question: `Let ${group}/${topic} take all events?`, text: "Events that it passed stay passed.", done: "it takes all events" }, () => post(where, { topic, clear: true }))),
  ];
}

function buttons(groupName, topic, line) {
  const at = path("groups", groupName);
  const partition = { name: "partition", title: "partition (empty: all)", type: "number" };
  const scope = (given) => ({ topic, ...(given.partition === "" ? {} : { partition: Number(given.partition) }) });
  const seek = el("button", { type: "button", "aria-expanded": "false" }, "Seek …");
  const preview = el("div");
  seek.addEventListener("click", () => {
    seek.ariaExpanded = String(!preview.firstChild);
    show(preview, !preview.firstChild && seekForm(at, scope, `${groupName}/${topic}`));
  });
  return el("div", {},
    el("div", { class: "buttons" },
      line.paused < line.partitions && action("Pause …", { question: `Pause ${groupName}/${topic}?`, text: "Its workers finish their units in hand, then wait.", fields: [partition, { name: "reason", title: "reason", required: true }], yes: "Pause", done: "paused" },
        (given) => post(`${at}/pause`, { ...scope(given), reason: given.reason })),
      line.paused > 0 && action("Resume", { question: `Resume ${groupName}/${topic}?`, fields: [partition], done: "resumed" }, (given) => post(`${at}/resume`, scope(given))),
      mayOperate() && seek),
    preview);
}

/** Ask where to, show the moves, then make them. */
function seekForm(at, scope, name) {
  const to = el("input", { name: "to", placeholder: "earliest, latest, an offset, a time", required: true });
  const clock = el("input", { name: "time", type: "datetime-local", step: "1" });
  clock.addEventListener("change", () => (to.value = clock.value && new Date(clock.value).toISOString()));
  const partition = el("input", { name: "partition", type: "number", min: "0" });
  const result = el("div");
  const form = el("form", {}, el("label", {}, "to", to), el("label", {}, "or the first event at", clock), el("label", {}, "partition (empty: all)", partition), el("button", { class: "main" }, "Preview"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const wanted = { ...scope({ partition: partition.value }), to: to.value };
    try {
      const plan = await post(`${at}/seek`, wanted);
      show(result, moves(plan), el("p", { class: "warn" }, effect(plan)), isMovable(plan) && el("div", { class: "buttons" }, action("Seek", {
        question: `Move ${name}?`, text: effect(plan), danger: true, done: "moved",
      }, () => post(`${at}/seek`, { ...wanted, apply: true }))));
    } catch (error) {
      tell(error.message, true);
    }
  });
  return [form, result];
}

const isMovable = (plan) => !plan.some((row) => row.worker);

/** The effect of a seek in words. */
function effect(plan) {
  const sum = (of) => plan.reduce((all, row) => all + row[of], 0);
  const letters = sum("dead_letters");
  return [
    `${plural(sum("again"), "event")} will be handled again, ${plural(sum("skipped"), "event")} never.`,
    letters ? ` ${plural(letters, "dead letter")} will leave the queue.` : "",
    isMovable(plan) ? "" : " While a worker has it, nothing is moved: pause it, then look at the preview again.",
  ].join("");
}

const moves = (rows) => table([
  { title: "partition", kind: "number", of: (row) => row.partition },
  { title: "now at", kind: "number", of: (row) => count(row.current_offset) },
  { title: "then at", kind: "number", of: (row) => count(row.new_offset) },
  { title: "handled again", kind: "number", of: (row) => count(row.again) },
  { title: "never handled", kind: "number", of: (row) => (row.skipped ? el("span", { class: "bad" }, count(row.skipped)) : "0") },
], rows, { empty: "nothing moves" });
