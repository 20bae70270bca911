// Filters and subscriptions: the events that each group takes, and a trial with one event.

import { get, path } from "../api.js";
import { el, facts, section, show, table } from "../dom.js";
import { reading, when } from "../reading.js";
import { age, count, plural } from "../words.js";

export default { name: "subscriptions", title: "Subscriptions", key: "u", menu: "more", pages: { 0: groups, 2: group } };

const href = (each) => `#/subscriptions/${encodeURIComponent(each.group)}/${encodeURIComponent(each.topic)}`;
const of = (rows, each) => rows.find((row) => row.group === each.group && row.topic === each.topic);

function takes(each, { filters, subscribed }) {
  const [filter, some] = [of(filters, each), of(subscribed, each)];
  if (some) return el("span", { class: some.stopped ? "bad" : null }, `the events of ${plural(some.subscriptions, "subscription")}`, some.stopped ? `, ${count(some.stopped)} of them stopped` : "");
  return filter ? el("code", {}, filter.takes) : "all events";
}

function groups({ main }) {
  return (status) => {
    const columns = [
      { title: "group", of: (each) => el("a", { href: href(each) }, each.group) },
      { title: "topic", of: (each) => each.topic },
      { title: "takes", of: (each) => takes(each, status) },
      { title: "kept", kind: "number", hide: true, of: (each) => count(of(status.filters, each)?.kept ?? null) },
      { title: "passed", kind: "number", hide: true, of: (each) => count(of(status.filters, each)?.passed ?? null) },
    ].map((column) => (column.kind ? { ...column, of: (each) => (of(status.filters, each) ? column.of(each) : null) } : column));
    show(main, el("h1", {}, "Subscriptions and filters"),
      table(columns, status.groups, { href, empty: "No group yet: gapless run makes those of its handlers, gapless groups create GROUP TOPIC another one." }));
  };
}

function group(page) {
  const [name, topic] = page.parts;
  const live = el("div");
  reading(page, `${name}/${topic}`, [
    ["Subscriptions", `${path("groups", name, "subscriptions")}`, subscriptions, { topic }],
  ], live, section("Try an event", trial(name, topic)));
  return (status) => {
    const found = of(status.filters, { group: name, topic });
    show(live, facts([["takes", takes({ group: name, topic }, status)], ...(found ? [
      ["kept", count(found.kept)], ["passed", count(found.passed)],
      ["not evaluated", found.unasked ? el("span", { class: "warn" }, `${count(found.unasked)}, the last at ${found.unasked_partition}@${found.unasked_offset}, ${age(found.unasked_s)} ago: ${found.unasked_why}`) : "0"],
    ] : [])]));
  };
}

function subscriptions(all) {
  const said = (value) => (value && Object.keys(value).length ? JSON.stringify(value) : null);
  return table([
    { title: "name", of: (each) => each.name },
    { title: "match", of: (each) => said(each.match) },
    { title: "condition", of: (each) => [each.where, each.sql_condition].filter(Boolean).join(" and ") || null },
    { title: "params", of: (each) => said(each.params) },
    { title: "state", of: (each) => (each.stopped_partitions.length ? el("span", { class: "bad" }, `stopped in ${each.stopped_partitions.join(", ")}: ${each.stopped_why}`) : el("span", { class: "good" }, each.left_s === null ? "matches" : `matches, expires in ${age(each.left_s)}`)) },
    { title: "set", hide: true, of: (each) => [when(each.set_at), ` by ${each.set_by}`] },
  ], all, { empty: "It has none: gapless subscriptions add GROUP NAME." });
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
      result.textContent = `${found.takes ? "It is taken" : "It is passed"}: ${found.why}.`;
    } catch (error) {
      result.className = "bad";
      result.textContent = error.message;
    }
  });
  return form;
}
