// Topics: the list, and one with its newest events, groups, partitions, rates and settings.

import { address } from "../address.js";
import { get, path, post } from "../api.js";
import { action } from "../ask.js";
import { historyChart } from "../chart.js";
import { el, facts, show, table } from "../dom.js";
import { LATE_MS } from "../history.js";
import { inTurn, when } from "../reading.js";
import { sortedTable } from "../sorted.js";
import { age, bytes, catchUp, count, plural, rate, stateOf } from "../words.js";
import { event } from "./event.js";
import { filtersIn, newest } from "./newest.js";
import { publishing } from "./publish.js";

export default { name: "topics", title: "Topics", key: "t", pages: { 0: topics, 1: topic, 3: event } };

const href = (each) => address(["topics", each.topic]);
const groupHref = (each) => address(["groups", each.group, each.topic]);

const RANK = { bad: 3, warn: 2, good: 1, quiet: 0 };
const rank = (group) => RANK[stateOf(group).level];
const worst = (groups) => groups.reduce((one, other) => (one && rank(one) >= rank(other) ? one : other), null);

function state(group) {
  const { state: word, part, level } = stateOf(group);
  return el("span", { class: level }, word, part && ` (${part})`);
}

/** Events a second that each topic got between two looks. */
const ends = { at: 0, of: new Map(), rates: new Map() };
function rates(status) {
  const at = Date.parse(status.taken_at);
  if (at > ends.at || ends.at - at > LATE_MS) {
    const now = new Map(status.topics.map((each) => [each.topic, each.partitions.reduce((sum, one) => sum + one.log_end_offset, 0)]));
    ends.rates = new Map();
    if (ends.at && at > ends.at) ends.rates = new Map([...now].filter(([name]) => ends.of.has(name)).map(([name, end]) => [name, Math.max(0, end - ends.of.get(name)) / ((at - ends.at) / 1000)]));
    Object.assign(ends, { at, of: now });
  }
  return ends.rates;
}

/** What a row of the list is made of. */
function rowsOf(status) {
  const byTopic = Map.groupBy(status.groups, (each) => each.topic);
  const published = rates(status);
  return status.topics.map((each) => {
    const groups = byTopic.get(each.topic) || [];
    return { ...each, groups, rate: published.get(each.topic), lag: groups.reduce((sum, one) => sum + one.lag, 0), worst: worst(groups) };
  });
}

const COLUMNS = [
  { title: "topic", by: (each) => each.topic, up: true, of: (each) => el("a", { href: href(each) }, each.topic) },
  { title: "partitions", kind: "number", hide: true, of: (each) => count(each.partition_count), by: (each) => each.partition_count },
  { title: "events", kind: "number", of: (each) => count(each.events), by: (each) => each.events },
  { title: "ev/s", kind: "number", of: (each) => rate(each.rate), by: (each) => each.rate ?? -1 },
  { title: "pending", kind: "number", hide: true, of: (each) => count(each.pending), by: (each) => each.pending ?? -1 },
  { title: "groups", kind: "number", of: (each) => count(each.groups.length), by: (each) => each.groups.length },
  { title: "behind", kind: "number", of: (each) => count(each.lag), by: (each) => each.lag },
  { title: "state", of: (each) => (each.worst ? state(each.worst) : el("span", { class: "quiet" }, "nobody reads")), by: (each) => (each.worst ? rank(each.worst) : -1) },
];

function topics({ main }) {
  const { find, element, use } = sortedTable({
    word: "topic", nameOf: (each) => each.topic, href, columns: COLUMNS, order: (a, b) => a.topic.localeCompare(b.topic),
    empty: "No topic yet: create one, or gapless topics create NAME.",
  });
  main.append(el("h1", {}, "Topics"), el("div", { class: "buttons" }, find, ...[creating()].filter(Boolean)), element);
  return (status) => use(rowsOf(status));
}

const given = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "" && value !== undefined));

function creating() {
  return action("Create a topic …", {
    question: "Create a topic?",
    fields: [
      { name: "name", title: "name: letters, digits, dots, dashes and underscores", required: true },
      { name: "total_partitions", title: "partitions (empty: as configured)", type: "number" },
      { name: "retention", title: "retention: 12h, 7d, forever (empty: as configured)" },
    ],
    yes: "Create",
    done: (made) => (made.created ? `created topic ${made.topic} with ${plural(made.partitions, "partition")}` : `topic ${made.topic} is there already`),
  }, ({ total_partitions: partitions, ...rest }) => post("/v1/topics", given({ ...rest, total_partitions: partitions && Number(partitions) })));
}

const COMPACTION = { "as it is": {}, "keep the newest event of each key": { compact: true }, "keep it no longer": { no_compact: true } };

function altering(topic) {
  return action("Alter …", {
    question: `Alter topic ${topic}?`,
    text: "Empty fields stay as they are. After a change of their number, events that are there are finished where they are; then the same keys continue in the new partitions.",
    fields: [
      { name: "partitions", title: "partitions: more or fewer", type: "number" },
      { name: "retention", title: "retention: 12h, 7d, forever" },
      { name: "dedupe_window", title: "dedupe window: 15m, 12h, 7d" },
      { name: "compaction", title: "compaction", options: Object.keys(COMPACTION) },
    ],
    yes: "Alter",
    done: "altered",
  }, async ({ partitions, compaction, ...rest }) => {
    const settings = { ...given(rest), ...COMPACTION[compaction] };
    if (!Object.keys(settings).length && !partitions) throw new Error(`Every field was empty, so topic ${topic} stays as it is.`);
    if (Object.keys(settings).length) await post(`${path("topics", topic)}/alter`, settings);
    if (partitions) await post(`${path("topics", topic)}/alter`, { partitions: Number(partitions) }); // in a transaction of its own
  });
}

const VIEWS = new Map(Object.entries({ "": "Events", groups: "Groups", partitions: "Partitions", rates: "Rates", settings: "Settings" }));

function topic({ main, parts: [topic], query, signal }) {
  const view = query.get("view") || "";
  const live = el("div");
  const body = el("div");
  const published = el("div", { "aria-live": "polite" });
  const tabs = [...VIEWS].map(([name, title]) => el("a", { href: address(["topics", topic], { view: name }), "aria-current": name === view ? "page" : null }, title));
  const there = el("div", {}, live, el("div", { class: "buttons" }, publishing(topic, published), altering(topic)), published, el("nav", { class: "tabs", "aria-label": "of the topic" }, tabs), body);
  const absent = el("p", { class: "empty", hidden: true }, "There is no such topic.");
  main.append(el("h1", {}, topic), absent, there);
  const update = VIEWS.has(view) && { "": events, groups, partitions, rates: charts, settings }[view]({ body, topic, query, signal });
  if (!VIEWS.has(view)) show(body, el("p", { class: "empty" }, "There is no such view of a topic."));
  return (status) => {
    const row = rowsOf(status).find((each) => each.topic === topic);
    absent.hidden = !(there.hidden = !row);
    if (!row) return;
    show(live, el("p", {}, `${plural(row.events, "event")} in ${plural(row.partition_count, "partition")}, ${rate(row.rate)} a second; `,
      row.pending > 0 && `${plural(row.pending, "event")} without an offset yet; `,
      row.groups.length ? ["read by ", row.groups.map((each, i) => [i ? ", " : "", el("a", { href: groupHref(each) }, each.group), " (", state(each), each.lag > 0 && `, ${count(each.lag)} behind`, ")"])] : "nobody reads it"));
    if (update) update(status);
  };
}

const events = ({ body, topic, query, signal }) => void body.append(...newest(topic, filtersIn(query), signal).flat(Infinity).filter(Boolean));

const groups = ({ body, topic }) => (status) => show(body, table([
  { title: "group", of: (each) => el("a", { href: groupHref(each) }, each.group) },
  { title: "mode", of: (each) => each.mode },
  { title: "state", of: state },
  { title: "behind", kind: "number", of: (each) => count(each.lag) },
  { title: "oldest", kind: "number", of: (each) => (each.lag ? age(each.lag_s) : "–") },
  { title: "catch up", kind: "number", of: catchUp },
  { title: "ev/s", kind: "number", of: (each) => rate(each.handled_per_s) },
  { title: "dead", kind: "number", of: (each) => el("a", { href: address(["dead"], { group: each.group, topic }) }, count(each.dead_letters)) },
], status.groups.filter((each) => each.topic === topic), { href: groupHref, empty: "No group reads the topic." }));

const partitions = ({ body, topic, signal }) => {
  const read = async () => {
    try {
      const rows = await get(path("topics", topic), {}, signal);
      show(body, table([
        { title: "partition", kind: "number", of: (each) => el("a", { href: address(["topics", topic], { at: each.partition }) }, each.partition) },
        { title: "oldest offset", kind: "number", of: (each) => count(each.log_start_offset) },
        { title: "log end offset", kind: "number", of: (each) => count(each.log_end_offset) },
        { title: "events", kind: "number", of: (each) => count(each.events) },
        { title: "size, about", kind: "number", of: (each) => bytes(each.about_bytes) },
        { title: "state", of: (each) => each.state },
      ], rows, { dense: true }));
    } catch (error) {
      if (!signal.aborted) show(body, el("p", { class: "bad" }, error.message));
    }
  };
  return read;
};

const charts = ({ body, topic, signal }) => void body.append(historyChart({ topic }, [
  { of: "published_per_s", title: "published", unit: "events/s" },
  { of: "lag", title: "lag", unit: "events" },
], signal));

function settings({ body, topic, signal }) {
  let own = null; // facts
  let status = null;
  const draw = () => own && status && show(body, facts([...own, ...factsOf(topic, status)]));
  const read = inTurn(() => Promise.all([get("/v1/topics", {}, signal), get(path("topics", topic), {}, signal)]).then(([all, parts]) => {
    const each = all.find((one) => one.topic === topic);
    own = each && [
      ["size", `about ${bytes(parts.reduce((sum, one) => sum + one.about_bytes, 0))}, by its newest events, without indexes`],
      ["partitions", count(each.partitions)],
      ["retention", each.retention_s === null ? "forever" : `${age(each.retention_s)}, at least`],
      ["archive", each.archive ? `pipeline ${each.archive} has to have read the events first` : "–"],
      ["does not wait for", each.overrun.join(", ") || "–"],
      ["dedupe window", each.dedupe_window],
      ["compacted", each.compacted ? "the newest event of each key stays" : "no"],
      ["direct messages", each.direct ? "yes" : "no"],
      ["created", when(each.created)],
    ];
    draw();
  }, (error) => signal.aborted || show(body, el("p", { class: "bad" }, error.message))));
  read();
  addEventListener("look", read, { signal }); // after a change
  return (look) => {
    status = look;
    draw();
  };
}

/** Facts that a look knows of a topic. */
function factsOf(topic, status) {
  const checked = (status.checked || []).find((each) => each.topic === topic);
  const expiring = (status.expiring || []).filter((each) => status.groups.some((group) => group.group === each.group && group.topic === topic));
  return [
    ["schemas", checked ? checked.types.map((type, i) => [i ? ", " : "", el("a", { href: address(["schemas", topic, type]) }, type === "*" ? "* (all others)" : type)]) : "payloads are not checked"],
    ["groups that expire", expiring.length ? expiring.map((each) => `${each.group} in ${age(each.left_s)}`).join(", ") : "–"],
    ["the log is held by", status.held.length ? status.held.join("; ") : "nothing"],
  ];
}
