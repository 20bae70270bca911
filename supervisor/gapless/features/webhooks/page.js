// Endpoints that are called with events.

import { address, keep, kept } from "../address.js";
import { path, post } from "../api.js";
import { action } from "../ask.js";
import { el, facts, section, table } from "../dom.js";
import { paging, reading, when } from "../reading.js";
import { count, plural } from "../words.js";

export default { name: "webhooks", title: "Webhooks", key: "w", menu: "more", pages: { 0: webhooks, 1: webhook } };

const href = (each) => address(["webhooks", each.name]);
const groupOf = (each) => (each.shared ? `webhooks-${each.topic}` : `webhook-${each.name}`);
const UNITS = 100;

function state(webhook) {
  const say = (level, text) => el("span", { class: level }, text);
  if (webhook.paused) return say("warn", webhook.pause_reason ? `paused: ${webhook.pause_reason}` : "paused");
  if (!webhook.is_run) return say("warn", "no supervisor delivers: gapless run --webhooks");
  if (webhook.circuit_open_since) return say("bad", "its requests fail: tried again by itself");
  return webhook.trouble ? say("bad", `stands: ${webhook.trouble}`) : say("good", "delivers");
}

function webhooks({ main, signal }) {
  main.append(el("h1", {}, "Webhooks"), section("Endpoints", paging(signal, "/v1/webhooks", () => ({}), {
    columns: [
      { title: "name", of: (each) => el("a", { href: href(each) }, each.name) },
      { title: "topic", of: (each) => each.topic },
      { title: "address", of: (each) => each.url },
      { title: "state", of: state },
      { title: "lag", kind: "number", of: (each) => count(each.lag) },
      { title: "dead", kind: "number", of: (each) => count(each.dead) },
      { title: "last error", of: (each) => each.last_error },
      { title: "", of: buttons },
    ],
    next: (last) => ({ after: last.name }),
    href,
    more: "More endpoints",
    empty: "No webhook yet: gapless webhooks add NAME TOPIC URL --secret env:NAME.",
  })));
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
  const requests = attempts(page, name);
  let below = new AbortController(); // the list of one answer ends with the next answer
  reading(page, name, [["Endpoint", "/v1/webhooks", ([each]) => {
    requests.hidden = !each;
    below.abort();
    below = new AbortController();
    return each ? [buttons(each), about(each), setAside({ signal: AbortSignal.any([page.signal, below.signal]) }, each)] : el("p", { class: "empty" }, "There is no such webhook.");
  }, { name }]]);
  page.main.append(requests);
}

function about(each) {
  const letters = (states, n) => el("a", { href: address(["dead"], { group: groupOf(each), states }) }, `${count(n)} ${states}`);
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

/** The newest requests with their answers, or only those that failed. */
function attempts({ signal }, name) {
  const isFailed = () => !!kept("failed");
  const only = el("button", { type: "button", "aria-pressed": isFailed() }, "Failed only");
  only.addEventListener("click", () => {
    keep({ failed: isFailed() ? "" : "1" });
    only.setAttribute("aria-pressed", isFailed());
    dispatchEvent(new Event("look"));
  });
  return section("Requests, the newest first", only, paging(signal, path("webhooks", name, "attempts"), () => ({ failed: isFailed() }), {
    columns: [
      { title: "at", kind: "time", of: (each) => when(each.at) },
      { title: "event", of: (each) => (each.offset === null ? "a probe" : el("a", { href: address(["topics", each.topic, each.partition, each.offset]) }, `${each.topic}/${each.partition}@${each.offset}`)) },
      { title: "type", of: (each) => each.event_type },
      { title: "attempt", kind: "number", of: (each) => each.attempt },
      { title: "answer", of: (each) => el("span", { class: each.status >= 200 && each.status < 300 ? "good" : "bad" }, [each.status, each.answer].filter((part) => part !== null).join(" ")) },
      { title: "ms", kind: "number", of: (each) => each.took_ms.toFixed(1) },
    ],
    next: (last) => ({ before: last.id }),
    more: "Older requests",
    empty: "No such request in the last 24 hours. New ones are here after some seconds.",
  }));
}

/** The units that wait for another attempt, or are dead. */
function setAside({ signal }, each) {
  const page = { main: el("div"), signal };
  reading(page, "", [["Set aside, the newest failure first", "/v1/dlq", (units) => [
    each.shared && el("p", { class: "quiet" }, "Endpoints of this topic share one group, so rows of others are here, too."),
    table([
      { title: "event", of: (unit) => el("a", { href: address(["dead", unit.group, unit.topic, unit.partition, unit.offset]) }, `${unit.topic}/${unit.partition}@${unit.offset}`) },
      { title: "state", of: (unit) => unit.state },
      { title: "attempts", kind: "number", of: (unit) => count(unit.attempts) },
      { title: "last", of: (unit) => when(unit.failed) },
      { title: "next", of: (unit) => when(unit.next_attempt) },
      { title: "answer", of: (unit) => unit.error },
    ], units, { empty: "No request waits for another attempt, and none was given up." }),
  ], { group: groupOf(each), topic: each.topic, states: "dead,waiting,parked", limit: UNITS }]]);
  return page.main;
}
