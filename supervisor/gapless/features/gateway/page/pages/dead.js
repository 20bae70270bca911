// Dead letters: the list, one with payload and traceback, and the actions on it.

import { get, post } from "../api.js";
import { action } from "../ask.js";
import { el, facts, section, show, table } from "../dom.js";
import { count, plural } from "../words.js";

export default { name: "dead", title: "Dead letters", key: "d", pages: { 0: dead, 4: letter } };

const at = (unit) => ["dead", unit.group, unit.topic, unit.partition, unit.offset].map(encodeURIComponent).join("/");
const when = (text) => (text ? new Date(text).toLocaleString() : null);

function dead({ main, query, signal }) {
  const list = el("div");
  const wanted = { states: "dead", ...Object.fromEntries(query) }; // from the address, which Back brings again
  const field = (title, given) => el("label", {}, title, el("input", { name: given, value: query.get(given) || "", autocomplete: "off" }));
  const states = el("select", { name: "states" }, ["dead", "waiting", "parked", "redriven", "discarded"].map((state) => el("option", { value: state, selected: state === wanted.states }, state)));
  const form = el("form", {}, field("group", "group"), field("topic", "topic"), field("error contains", "error"), el("label", {}, "state", states), el("button", { class: "main" }, "Show"));
  const load = async () => {
    try {
      const units = await get("/v1/dlq", { ...wanted, limit: UNITS_MAX }, signal);
      show(list, all(units, wanted), table(COLUMNS, units, { href: (unit) => `#/${at(unit)}`, empty: "Nothing was set aside." }));
    } catch (error) {
      if (!signal.aborted) show(list, el("p", { class: "bad" }, error.message));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = `#/dead?${new URLSearchParams([...new FormData(form)].filter(([, value]) => value))}`;
    if (location.hash === asked) load();
    else location.hash = asked;
  });
  addEventListener("look", load, { signal });
  main.append(el("h1", {}, "Dead letters"), form, list);
  load();
}

const UNITS_MAX = 200;
const COLUMNS = [
  { title: "unit", of: (unit) => el("a", { href: `#/${at(unit)}` }, `${unit.group}/${unit.topic}/${unit.partition}@${unit.offset}`) },
  { title: "state", of: (unit) => unit.state },
  { title: "failed", hide: true, of: (unit) => when(unit.failed) },
  { title: "attempts", kind: "number", hide: true, of: (unit) => unit.attempts },
  { title: "events", kind: "number", hide: true, of: (unit) => unit.events },
  { title: "key", of: (unit) => unit.key },
  { title: "error", of: (unit) => (unit.error || "").trimEnd().split("\n").pop() },
];

function all(units, wanted) {
  if (units.length === 0) return null;
  return el("div", { class: "buttons" },
    action("Redrive all of these", { question: `Redrive ${these(units)}?`, text: "They are handled again, in their order.", yes: "Redrive", done: (said) => `${plural(said.units, "unit")} redriven` },
      () => post("/v1/dlq/redrive-all", wanted)),
    action("Discard all of these", { question: `Discard ${these(units)} for good?`, danger: true, fields: [{ name: "reason", title: "reason", required: true }], yes: "Discard", done: (said) => `${plural(said.units, "unit")} discarded` },
      (given) => post("/v1/dlq/discard-all", { ...wanted, reason: given.reason })));
}

/** How many units, and whose: as many as are shown, or all that the filters find. */
function these(units) {
  const whose = [...new Set(units.map((unit) => `${unit.group}/${unit.topic}`))];
  const many = units.length < UNITS_MAX ? plural(units.length, "unit") : `all units that these filters find, ${count(units.length)} at least,`;
  return `${many} of ${whose.slice(0, 5).join(", ")}${whose.length > 5 ? " and others" : ""}`;
}

function letter({ main, parts, signal }) {
  const place = `${parts[0]}/${parts[1]}/${parts[2]}@${parts[3]}`;
  const body = el("div", {}, el("p", { class: "quiet" }, "reading …"));
  main.append(el("h1", {}, place), body);
  const load = async () => {
    try {
      show(body, details(await get("/v1/dlq/unit", { place }, signal), place));
    } catch (error) {
      if (!signal.aborted) show(body, el("p", { class: error.status === 404 ? "empty" : "bad" }, error.status === 404 ? "It is not set aside any more." : error.message));
    }
  };
  addEventListener("look", load, { signal });
  load();
}

function details({ unit, events, behind }, place) {
  const first = events[0] || {};
  const one = `${place} (${plural(unit.events, "event")})`;
  const isOpen = ["dead", "waiting", "parked"].includes(unit.state);
  const fields = events.map((event) => ({ name: String(event.offset), title: `payload of ${event.offset} (JSON)`, value: pretty(event.payload), rows: 10 }));
  return [
    isOpen && el("div", { class: "buttons" },
      action("Redrive", { question: `Redrive ${one}?`, text: "It is handled again.", done: "it is handled again" }, () => post("/v1/dlq/redrive", { place })),
      events.length === unit.events && action("Edit and redrive", {
        question: `Redrive ${one}, with this payload?`, text: "Only this group sees the change: the log stays as it is.", fields, yes: "Redrive", done: "it is handled again, with the new payload",
      }, (payloads) => post("/v1/dlq/edit", { place, payloads })),
      action("Discard", { question: `Discard ${one} for good?`, danger: true, fields: [{ name: "reason", title: "reason", required: true }], done: "discarded" }, (given) => post("/v1/dlq/discard", { place, reason: given.reason }))),
    facts([
      ["state", unit.state], ["attempts", String(unit.attempts)], ["deaths of its process", String(unit.crashes)],
      ["first failed", when(unit.first_failed)], ["last failed", when(unit.failed)], ["next attempt", when(unit.next_attempt)],
      ["worker", unit.worker], ["key", first.key], ["type", first.event_type], ["transaction", unit.transaction_id], ["events", String(unit.events)],
      ["redriven", unit.redriven && `${when(unit.redriven)} by ${unit.redriven_by}`], ["discarded by", unit.discarded_by && `${unit.discarded_by}: ${unit.discard_reason}`],
      ["parked behind it", behind.length ? String(behind.length) : null],
    ].filter(([, value]) => value)),
    section("Error", el("pre", {}, unit.exception || unit.reason || "–")),
    events.map((event) => section(`Payload of ${event.offset}`, el("pre", {}, pretty(event.payload)), event.headers && el("details", {}, el("summary", {}, "headers"), el("pre", {}, pretty(event.headers))))),
  ];
}

/** JSON text on several lines, or as it was written where parsing would change its numbers. */
function pretty(text) {
  if (text === null) return "null";
  const parsed = JSON.parse(text);
  return /[0-9]{16}|[.][0-9]*0\b|[0-9][eE]/.test(text) ? text : JSON.stringify(parsed, null, 2);
}
