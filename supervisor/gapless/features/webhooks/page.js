// Endpoints that are called with events.

import { path, post } from "../api.js";
import { action } from "../ask.js";
import { el, facts, table } from "../dom.js";
import { reading, when } from "../reading.js";
import { count, plural } from "../words.js";

export default { name: "webhooks", title: "Webhooks", key: "w", menu: "more", pages: { 0: webhooks, 1: webhook } };

const href = (each) => `#/webhooks/${encodeURIComponent(each.name)}`;
const groupOf = (each) => (each.shared ? `webhooks-${each.topic}` : `webhook-${each.name}`);
const UNITS = 100;

function state(webhook) {
  const say = (level, text) => el("span", { class: level }, text);
  if (webhook.paused) return say("warn", webhook.pause_reason ? `paused: ${webhook.pause_reason}` : "paused");
  if (!webhook.is_run) return say("warn", "no supervisor delivers: gapless run --webhooks");
  return webhook.circuit_open_since ? say("bad", "its requests fail: tried again by itself") : say("good", "delivers");
}

function webhooks(page) {
  reading(page, "Webhooks", [
    ["Endpoints", "/v1/webhooks", (all) => table([
      { title: "name", of: (each) => el("a", { href: href(each) }, each.name) },
      { title: "topic", of: (each) => each.topic },
      { title: "address", of: (each) => each.url },
      { title: "state", of: state },
      { title: "lag", kind: "number", of: (each) => count(each.lag) },
      { title: "dead", kind: "number", of: (each) => count(each.dead) },
      { title: "last error", hide: true, of: (each) => each.last_error },
      { title: "", of: buttons },
    ], all, { href, empty: "No webhook yet: gapless webhooks add NAME TOPIC URL --secret env:NAME." })],
  ]);
}

function buttons(each) {
  const at = path("webhooks", each.name);
  return el("div", { class: "buttons" },
    each.paused
      ? action("Resume", { question: `Resume ${each.name}?`, done: "resumed" }, () => post(`${at}/resume`))
      : action("Pause", { question: `Pause ${each.name}?`, fields: [{ name: "reason", title: "reason", required: true }], done: "paused" }, (given) => post(`${at}/pause`, given)),
    each.shared && action("Replay", {
      question: `Send ${each.name} its events again?`,
      text: "It alone is called, with the ids that its messages had. 100 000 events at most.",
      fields: [{ name: "since", title: "since: a time, or an age (15m, 12h, 7d)", value: "2h", required: true }],
      yes: "Send again",
      preview: async (given) => `${plural((await post(`${at}/replay`, { ...given, dry_run: true })).units, "unit")} since ${given.since} would be sent again.`,
      done: (said) => `${plural(said.units, "unit")} sent again`,
    }, (given) => post(`${at}/replay`, given)));
}

function webhook(page) {
  const [name] = page.parts;
  reading(page, name, [["Endpoint", "/v1/webhooks", (all) => {
    const each = all.find((one) => one.name === name);
    return each ? [buttons(each), about(each), failures(page, each)] : el("p", { class: "empty" }, "There is no such webhook.");
  }]]);
}

function about(each) {
  const letters = (states, n) => el("a", { href: `#/dead?${new URLSearchParams({ group: groupOf(each), states })}` }, `${count(n)} ${states}`);
  return facts([
    ["state", state(each)],
    ["address", each.url],
    ["topic", each.topic],
    ["takes", [...(each.event_types || []), each.where && `where ${each.where}`].filter(Boolean).join(", ") || "all events"],
    ["requests", `${count(each.delivered)} succeeded, ${count(each.failed)} failed; ${each.rate ? `${each.rate} a second` : "any number a second"}, ${count(each.concurrency)} at a time`],
    ["last request", each.last_at && [when(each.last_at), each.last_error ? el("span", { class: "bad" }, `: ${each.last_error}`) : ": it succeeded"]],
    ["fails since", each.circuit_open_since && when(each.circuit_open_since)],
    ["lag", count(each.lag)],
    ["set aside", [letters("waiting", each.waiting), ", ", letters("dead", each.dead)]],
    ["secrets", each.secrets.join(", ")],
    ["test", [el("code", {}, `gapless webhooks test ${each.name}`), " where the supervisor runs, which has the secrets"]],
  ].filter(([, value]) => value));
}

/** Failed requests: the units that wait or are dead. Requests that succeeded are counted, and not kept. */
function failures({ signal }, each) {
  const page = { main: el("div"), signal };
  reading(page, "", [["Failed requests, the newest first", "/v1/dlq", (units) => [
    el("p", { class: "quiet" }, `Each row is an event with its last answer. Requests that succeeded are counted only${each.shared ? "; endpoints of this topic share one group, so rows of others are here, too" : ""}.`),
    table([
      { title: "event", of: (unit) => el("a", { href: `#/dead/${[unit.group, unit.topic, unit.partition, unit.offset].map(encodeURIComponent).join("/")}` }, `${unit.topic}/${unit.partition}@${unit.offset}`) },
      { title: "state", of: (unit) => unit.state },
      { title: "attempts", kind: "number", of: (unit) => count(unit.attempts) },
      { title: "last", of: (unit) => when(unit.failed) },
      { title: "next", of: (unit) => when(unit.next_attempt) },
      { title: "answer", of: (unit) => unit.error },
    ], units, { empty: "No request waits for another attempt, and none was given up." }),
  ], { group: groupOf(each), topic: each.topic, states: "dead,waiting,parked", limit: UNITS }]]);
  return page.main;
}
