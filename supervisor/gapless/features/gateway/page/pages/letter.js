// A dead letter: its error with the frames of the user's own code, its attempts in time, payload, and the changes of it.

import { address } from "../address.js";
import { exact, get, post } from "../api.js";
import { action } from "../ask.js";
import { el, facts, section, show } from "../dom.js";
import { payload } from "../payload.js";
import { inTurn, when } from "../reading.js";
import { count, plural } from "../words.js";
import { OPEN } from "./causes.js";

export function letter({ main, parts, signal }) {
  const place = `${parts[0]}/${parts[1]}/${parts[2]}@${parts[3]}`;
  const body = el("div", {}, el("p", { class: "quiet" }, "reading …"));
  main.append(el("h1", {}, place), body);
  const load = inTurn(async () => {
    try {
      show(body, details(await get("/v1/dlq/unit", { place }, signal), place));
    } catch (error) {
      if (!signal.aborted) show(body, el("p", { class: error.status === 404 ? "empty" : "bad" }, error.status === 404 ? "It is not set aside any more." : error.message));
    }
  });
  addEventListener("look", load, { signal });
  load();
}

function details({ unit, events, behind, ahead, alike }, place) {
  const first = events[0] || {};
  const { group, topic } = unit;
  return [
    buttons(unit, events, place),
    facts([
      ["state", unit.state],
      ["group", el("a", { href: address(["groups", group, topic]) }, `${group}/${topic}`)],
      ["event", el("a", { href: address(["topics", topic, unit.partition, unit.offset]) }, `${topic}/${unit.partition}@${unit.offset}`)],
      ["same error", alike.units > 0 && el("a", { href: address(["dead"], { group, topic, states: OPEN, cause: alike.cause }) }, `${plural(alike.units, "unit")} of this group`)],
      ["attempts", String(unit.attempts)], ["deaths of its process", unit.crashes ? String(unit.crashes) : null], ["worker", unit.worker],
      ["key", first.key], ["type", first.event_type], ["transaction", unit.transaction_id], ["events", String(unit.events)],
      ["parked behind it", behind.length ? String(behind.length) : null],
      ["waits for", ahead && el("a", { href: address(["dead", group, topic, ahead.partition, ahead.offset]) }, `${group}/${topic}/${ahead.partition}@${ahead.offset}`)],
    ].filter(([, value]) => value)),
    section("Error", el("p", { class: "bad error" }, unit.reason || "–"), frames(unit.exception || "")),
    section("Attempts", el("ol", { class: "past" }, past(unit).map(([time, words]) => el("li", {}, when(time), ` ${words}`)))),
    events.map((event) => section(`Payload of ${event.offset}`, payload({ payload: exact(event.payload ?? "null") }),
      event.headers && el("details", { open: true }, el("summary", {}, "headers"), el("pre", { tabindex: "0" }, pretty(event.headers))))),
    unit.events > events.length && el("p", { class: "quiet" }, `and ${plural(unit.events - events.length, "more event")}: gapless dlq show ${place}`),
  ];
}

function buttons(unit, events, place) {
  if (!["dead", "waiting", "parked"].includes(unit.state)) return null;
  const one = `${place} (${plural(unit.events, "event")})`;
  const fields = events.map((event) => ({ name: String(event.offset), title: `payload of ${event.offset} (JSON)`, value: pretty(event.payload), rows: 10 }));
  return el("div", { class: "buttons" },
    action("Redrive", { question: `Redrive ${one}?`, text: "It is handled again.", done: "it is handled again" }, () => post("/v1/dlq/redrive", { place })),
    events.length === unit.events && action("Edit and redrive", {
      question: `Redrive ${one}, with this payload?`, text: "Only this group sees the change: the log stays as it is.", fields, yes: "Redrive", done: "it is handled again, with the new payload",
    }, (given) => post("/v1/dlq/edit", { place, payloads: changed(given, fields) })),
    action("Discard", { question: `Discard ${one} for good?`, danger: true, fields: [{ name: "reason", title: "reason", required: true }], done: "discarded" }, (given) => post("/v1/dlq/discard", { place, reason: given.reason })));
}

/** The fields that somebody has edited: the other events stay just as they were published. */
const changed = (given, fields) => Object.fromEntries(fields.filter(({ name, value }) => given[name] !== value).map(({ name }) => [name, given[name]]));

/** The times of a unit, the first one first. */
function past(unit) {
  return [
    [unit.first_failed, "failed for the first time"],
    unit.attempts > 1 && [unit.failed, `failed, at attempt ${count(unit.attempts)}`],
    [unit.died, "was given up"],
    [unit.redriven, `was redriven by ${unit.redriven_by}`],
    [unit.closed, unit.state === "discarded" ? `was discarded by ${unit.discarded_by}: ${unit.discard_reason}` : "was handled"],
    unit.state === "waiting" && [unit.next_attempt, "is the time of its next attempt"],
  ].filter((each) => each && each[0]).sort(([a], [b]) => Date.parse(a) - Date.parse(b));
}

const LIBRARY = /site-packages|dist-packages|[/\\]lib[/\\]python|[/\\]supervisor[/\\]gapless[/\\]|<frozen |[/\\]gapless[/\\](consume|worker|log|db|features)[/\\]/;

/** The traceback, with the frames of the user's own code before it, the innermost first. */
function frames(exception) {
  const own = [...exception.matchAll(/^ *File "([^"\n]+)", line ([0-9]+), in (.+)\n(?: {4}(.+))?/gm)].filter(([, file]) => !LIBRARY.test(file)).reverse();
  return [
    own.length > 0 && el("ol", { class: "frames" }, own.map(([, file, line, name, code]) => el("li", {}, `${file}:${line} in ${name}`, code && el("pre", {}, code.trim())))),
    exception && el("details", { open: own.length === 0 }, el("summary", {}, "Traceback"), el("pre", { tabindex: "0" }, exception)),
  ];
}

/** JSON text on several lines with its numbers as they were written, or else as it is. */
function pretty(text) {
  if (text === null) return "null";
  try {
    return JSON.rawJSON ? JSON.stringify(exact(text), null, 2) : text;
  } catch {
    return text; // nested too deep
  }
}
