// An event: its payload, its neighbours, the chain it is in, and its state in each group.

import { address } from "../address.js";
import { get, getEvents, path, session } from "../api.js";
import { el, facts, section, show, table } from "../dom.js";
import { copyButton, payload, SHOWN_CHARACTERS } from "../payload.js";
import { when } from "../reading.js";
import { publishingAgain } from "./publish.js";
import { bytes, count, plural } from "../words.js";

const CHAIN_UNITS = 100;

export function event({ main, parts: [topic, partition, offset], signal }) {
  const body = el("div");
  const groups = el("div");
  main.append(
    el("h1", {}, el("a", { href: address(["topics", topic]) }, topic), `/${partition}@${offset}`),
    body);
  let found = null;
  let status = null;
  let drawn = "";
  const read = async (characters) => {
    try {
      found = await getEvents(path("topics", topic, "events", partition, offset), { payload_chars: characters }, signal);
      show(body, ...parts(topic, found, groups, signal, () => read("")));
      show(groups, standing(topic, found, status));
    } catch (error) {
      if (!signal.aborted) show(body, el("p", { class: "bad" }, error.message));
    }
  };
  read(SHOWN_CHARACTERS);
  // The groups again, when they have gone on.
  return async (look) => {
    status = look;
    const now = JSON.stringify(status.groups.filter((each) => each.topic === topic).map((each) => [each.group, each.lag, each.dead_letters, each.waiting, each.open]));
    if (!found || now === drawn) return;
    drawn = now;
    try {
      found.groups = (await getEvents(path("topics", topic, "events", partition, offset), { payload_chars: 1 }, signal)).groups;
      show(groups, standing(topic, found, status));
    } catch {
      drawn = ""; // with the next look
    }
  };
}

function parts(topic, found, groups, signal, all) {
  const { event } = found;
  const place = `${topic}/${event.partition}@${event.offset}`;
  const at = (offset, title, why) => {
    if (offset !== null) return el("a", { href: address(["topics", topic, event.partition, offset]) }, title);
    return el("span", { class: "quiet", title: why }, title);
  };
  const by = (name, value) => value !== null && el("a", { href: address(["topics", topic], { [name]: value }) }, value);
  const published = el("div", { "aria-live": "polite" });
  const far = event.key === null ? "it has no key" : "none among 5000 events";
  return [
    el("nav", { class: "buttons follows", "aria-label": "other events" },
      at(found.previous, "← previous", "it is the oldest"), at(found.next, "next →", "it is the newest"),
      at(found.previous_of_key, "← previous of the key", far), at(found.next_of_key, "next of the key →", far),
      copyButton("Copy place", () => place), publishingAgain(topic, event, published)),
    published,
    facts([
      ["key", by("key", event.key) || "–"],
      ["type", by("types", event.event_type) || "–"],
      ["published", when(event.created_ts)],
      ["transaction", by("transaction_id", event.transaction_id)],
      ["unit", found.first_offset === found.last_offset ? "this event alone" : `${count(found.first_offset)} to ${count(found.last_offset)}: handled as one`],
      ...(event.host_id === null ? [] : [["host", event.host_id]]),
      ...(event.user_id === null ? [] : [["user", event.user_id]]),
      ["size", bytes(found.payload_bytes)],
      ...Object.entries(event.headers || {}).map(([name, value]) => [`header ${name}`, el("code", {}, typeof value === "string" ? value : JSON.stringify(value))]),
    ]),
    section("Payload", payload(event, all)),
    section("Groups", groups),
    section("Chain", chain(event, signal)),
  ];
}

/** The event in each group; the newest look knows how far they are by now. */
function standing(topic, found, status) {
  const { partition, offset } = found.event;
  const takesSome = new Set((status ? [...(status.filters || []), ...(status.subscribed || [])] : []).filter((each) => each.topic === topic).map((each) => each.group));
  const state = (each) => {
    if (each.state === "skipped") return el("span", { class: "warn" }, "passed by a seek");
    if (each.unit !== null && each.state !== "handled")
      return el("a", { class: each.state === "dead" ? "bad" : "warn", href: address(["dead", each.group, topic, partition, each.unit]) }, each.state === "dead" ? `dead letter (${each.letter})` : `waits for another attempt`);
    if (each.state === "before") return el("span", { class: "quiet" }, "before its start");
    if (each.state === "unplaced") return el("span", { class: "bad" }, "no place in this partition: gapless doctor says what helps");
    if (each.state === "pending") return el("span", { class: "warn" }, each.behind > 1 ? `behind by ${plural(each.behind, "event")}` : "next");
    return el("span", { class: "good" }, takesSome.has(each.group) ? "passed: handled, or not wanted by its filter" : "handled");
  };
  return table([
    { title: "group", kind: "place", of: (each) => el("a", { href: address(["groups", each.group, topic]) }, each.group) },
    { title: "mode", kind: "place", of: (each) => each.mode },
    { title: "state", of: state },
    { title: "attempts", kind: "number", of: (each) => each.attempts && count(each.attempts) },
    { title: "reason", of: (each) => each.reason ?? "" },
  ], found.groups, { empty: `No group${session().asks_keys ? " that this key may see" : ""} reads the topic.` });
}

function chain(event, signal) {
  const body = el("div", {}, el("p", { class: "quiet" }, "reading …"));
  get(path("trace", event.transaction_id), { limit: CHAIN_UNITS }, signal).then((found) => {
    const alone = found.units.length === 1 && found.units[0].groups.every((each) => !each.published.length);
    show(body,
      alone ? el("p", { class: "quiet" }, "No unit caused it that the log knows, and it has caused none.") : el("ul", { class: "chain" }, found.units.map(unit)),
      "left_out" in found && el("p", { class: "quiet" }, found.left_out === null ? "There are more units." : `${plural(found.left_out, "more unit")}, not shown.`));
  }, (error) => signal.aborted || show(body, el("p", { class: "quiet" }, error.message)));
  return body;
}

/** A unit of the chain, and below it each group with the units that it published because of it. */
function unit(each) {
  const name = each.first_offset === null ? `${each.topic}: no offset yet` : `${each.topic}/${each.partition}@${each.first_offset}`;
  return el("li", {},
    each.first_offset === null || each.state !== "sequenced" ? name : el("a", { href: address(["topics", each.topic, each.partition, each.first_offset]), "aria-current": each.asked_for ? "true" : null }, name),
    ` ${plural(each.events, "event")} `, (each.event_types || []).join(", "), " ",
    each.asked_for && el("span", { class: "good" }, "this transaction "),
    each.cause && each.detached && el("span", { class: "quiet" }, `caused by ${each.cause} (${each.detached}) `),
    el("ul", {}, each.groups.map((group) => el("li", {}, el("span", { class: "quiet" }, `${group.group}: ${group.state === "handled" ? "handled or passed" : group.state}`), group.published.length > 0 && el("ul", {}, group.published.map(unit))))));
}
