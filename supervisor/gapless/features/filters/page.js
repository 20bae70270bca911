// Filters and subscriptions: the events that each group takes, and a trial with one event.

import { address } from "../address.js";
import { get, getEvents, path, post } from "../api.js";
import { action } from "../ask.js";
import { el, facts, section, show, table } from "../dom.js";
import { reading, when } from "../reading.js";
import { sortedTable } from "../sorted.js";
import { age, count, name, plural } from "../words.js";

export default { name: "subscriptions", title: "Subscriptions", key: "u", menu: "more", pages: { 0: groups, 2: group } };

const href = (each) => address(["subscriptions", each.group, each.topic]);
const of = (rows, each) => rows.find((row) => row.group === each.group && row.topic === each.topic);

function takes({ filter, some }) {
  if (some) return el("span", { class: some.stopped ? "bad" : null }, `the events of ${plural(some.subscriptions, "subscription")}`, some.stopped ? `, ${count(some.stopped)} of them stopped` : "");
  return filter ? el("code", {}, filter.takes) : "all events";
}

const counted = (title) => ({ title, kind: "number", hide: true, by: ({ filter }) => filter?.[title] ?? -1, of: ({ filter }) => filter && count(filter[title]) });
const COLUMNS = [
  { title: "group", up: true, by: (each) => each.group, of: (each) => el("a", { href: href(each) }, each.group) },
  { title: "topic", up: true, by: (each) => each.topic, of: (each) => each.topic },
  { title: "takes", by: ({ filter, some }) => (some ? 2 : filter ? 1 : 0), of: takes },
  counted("kept"),
  counted("passed"),
];

function groups({ main }) {
  const { find, element, use } = sortedTable({
    word: "group", nameOf: name, href, columns: COLUMNS, order: (a, b) => name(a).localeCompare(name(b)),
    empty: "No group yet: gapless run makes those of its handlers, gapless groups create GROUP TOPIC another one.",
  });
  main.append(el("h1", {}, "Subscriptions and filters"), el("div", { class: "buttons" }, find), element);
  return (status) => {
    const [filters, subscribed] = [status.filters, status.subscribed].map((rows) => new Map(rows.map((each) => [name(each), each])));
    use(status.groups.map(({ group, topic }) => ({ group, topic, filter: filters.get(name({ group, topic })), some: subscribed.get(name({ group, topic })) })));
  };
}

function group(page) {
  const [name, topic] = page.parts;
  const live = el("div");
  reading(page, `${name}/${topic}`, [
    ["Subscriptions", path("groups", name, "subscriptions"), (all) => subscriptions(all, name, topic), { topic }, getEvents], // params have the numbers of events
  ], live, section("Try an event", trial(name, topic)));
  return (status) => {
    const at = { group: name, topic };
    const found = of(status.filters, at);
    show(live, facts([["takes", takes({ filter: found, some: of(status.subscribed, at) })], ...(found ? [
      ["kept", count(found.kept)], ["passed", count(found.passed)],
      ["not evaluated", found.unasked ? el("span", { class: "warn" }, `${count(found.unasked)}, the last at ${found.unasked_partition}@${found.unasked_offset}, ${age(found.unasked_s)} ago: ${found.unasked_why}`) : "0"],
    ] : [])]));
  };
}

const number = (value) => (value === null ? null : Number(JSON.stringify(value)));
const said = (value) => (value && Object.keys(value).length ? JSON.stringify(value) : null);

function subscriptions(found, name, topic) {
  const all = found.map((each) => ({ ...each, left_s: number(each.left_s), expires_after_s: number(each.expires_after_s) }));
  const add = setting(name, topic);
  return [add && el("div", { class: "buttons" }, add), table([
    { title: "name", of: (each) => each.name },
    { title: "match", of: (each) => said(each.match) },
    { title: "condition", of: (each) => [each.where, each.sql_condition].filter(Boolean).join(" and ") || null },
    { title: "params", of: (each) => said(each.params) },
    { title: "state", of: (each) => (each.stopped_partitions.length ? el("span", { class: "bad" }, `stopped in ${each.stopped_partitions.join(", ")}: ${each.stopped_why}`) : el("span", { class: "good" }, each.left_s === null ? "matches" : `matches, expires in ${age(each.left_s)}`)) },
    { title: "set", of: (each) => [when(each.set_at), ` by ${each.set_by}`] },
    add && { title: "", of: (each) => el("div", { class: "buttons" }, changes(each)) },
  ].filter(Boolean), all, { empty: "It has none: gapless subscriptions add GROUP NAME." })];
}

/** A button that adds a subscription or, given one, replaces its conditions; null where nothing may be changed. */
function setting(group, topic, each) {
  const at = path("groups", group, "subscriptions");
  return action(each ? "Change …" : "Add a subscription …", {
    question: each ? `Change subscription ${each.name} of ${group}/${topic}?` : `Add a subscription to ${group}/${topic}?`,
    text: "It takes the events for which all of its conditions hold, from the next claim on. A group with subscriptions takes no other events.",
    fields: [
      !each && { name: "name", title: "name; one of that name is replaced", required: true },
      { name: "match", title: 'params that equal parts of an event: {"id": "$.customer_id"}', value: said(each?.match) },
      { name: "where", title: "jsonpath predicate: $.total > $min", value: each?.where },
      { name: "sql_condition", title: "SQL expression over e and s", value: each?.sql_condition },
      { name: "params", title: 'params: {"id": 17}', value: said(each?.params) },
      { name: "expires_after_s", title: "expires unless renewed for so long: 12h, 30d (empty: never)", value: each?.expires_after_s && `${each.expires_after_s}s` },
    ].filter(Boolean),
    yes: each ? "Change" : "Add",
    done: (made) => (made.changed ? `subscription ${made.name} is set` : `subscription ${made.name} is so already`),
  }, (given) => post(at, { topic, ...(each && { name: each.name }), ...Object.fromEntries(Object.entries(given).filter(([, value]) => value)) }));
}

/** The buttons of a subscription. */
function changes(each) {
  const { group, topic, name } = each;
  const does = (verb) => () => post(path("groups", group, "subscriptions", verb), { topic, name });
  return [
    setting(group, topic, each),
    each.left_s !== null && action("Renew", { question: `Begin the time of ${name} anew?`, done: "renewed" }, does("renew")),
    each.stopped_partitions.length > 0 && action("Resume", { question: `Ask subscription ${name} again?`, text: "Events that it missed are handled for it.", done: (made) => `resumed: ${plural(made.units, "unit")} that it missed` }, does("resume")),
    action("Remove", { question: `Remove subscription ${name} of ${group}/${topic}?`, text: "A group without any takes nothing.", danger: true, yes: "Remove it", done: "removed" }, does("remove")),
  ];
}

function trial(name, topic) {
  const number = (title, given, min) => el("label", {}, title, el("input", { name: given, type: "number", min, required: true }));
  const result = el("p", { "aria-live": "polite" });
  const form = el("form", {}, number("partition", "partition", 0), number("offset", "offset", 1), el("button", { class: "main" }, "Try"), result);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const { partition, offset } = Object.fromEntries(new FormData(form));
      const found = await get(path("groups", name, "takes"), { topic, event: `${partition}@${offset}` });
      result.className = found.takes ? "good" : "warn";
      show(result, `${found.takes ? "It is taken" : "It is passed"}: ${found.why}.`);
    } catch (error) {
      result.className = "bad";
      show(result, error.message);
    }
  });
  return form;
}
