// Events for later and schedules, webhooks, and retention.

import { get, path, post } from "../api.js";
import { action } from "../ask.js";
import { el, section, show, table } from "../dom.js";
import { bytes, count, plural } from "../words.js";

const when = (text) => (text ? new Date(text).toLocaleString() : null);

/** A page that reads documents now and after each change; a part that cannot be read says why. */
function reading({ main, signal }, title, parts) {
  const body = el("div");
  main.append(el("h1", {}, title), body);
  const load = async () => {
    const made = await Promise.all(parts.map(async ([heading, where, draw]) => {
      try {
        return section(heading, draw(await get(where, {}, signal)));
      } catch (error) {
        return section(heading, el("p", { class: "bad" }, error.message));
      }
    }));
    if (!signal.aborted) show(body, made);
  };
  addEventListener("look", load, { signal });
  load();
}

export function later(page) {
  reading(page, "For later", [
    ["Schedules", "/v1/schedules", (schedules) => table([
      { title: "name", of: (each) => each.name },
      { title: "when", of: (each) => (each.cron ? `${each.cron} ${each.zone}` : `every ${each.every}`) },
      { title: "topic", of: (each) => each.topic },
      { title: "next", of: (each) => (each.paused ? el("span", { class: "warn" }, "paused") : when(each.next_due) || el("span", { class: "bad" }, each.trouble || "never")) },
      { title: "fired", kind: "number", hide: true, of: (each) => count(each.fired) },
      { title: "", of: (each) => {
        const at = path("schedules", each.name);
        return el("div", { class: "buttons" },
          each.paused
            ? action("Resume", { question: `Resume ${each.name}?`, done: "resumed" }, () => post(`${at}/resume`))
            : action("Pause", { question: `Pause ${each.name}?`, done: "paused" }, () => post(`${at}/pause`)),
          action("Run now", { question: `Run ${each.name} now, beside its times?`, done: "published" }, () => post(`${at}/run`)));
      } },
    ], schedules, { empty: "No schedule." })],
    ["Events that wait for their time", "/v1/later", (events) => table([
      { title: "deliver at", of: (each) => when(each.deliver_at) },
      { title: "topic", of: (each) => each.topic },
      { title: "key", of: (each) => each.key },
      { title: "", of: (each) => action("Cancel", { question: "Cancel this event?", danger: true, yes: "Cancel it", done: (said) => (said.cancelled ? "cancelled" : "too late: it was delivered") }, () => post(`${path("later", each.scheduled_id)}/cancel`)) },
    ], events, { empty: "Nothing waits for its time." })],
  ]);
}

function state(webhook) {
  const say = (level, text) => el("span", { class: level }, text);
  if (webhook.paused) return say("warn", webhook.pause_reason ? `paused: ${webhook.pause_reason}` : "paused");
  if (!webhook.is_run) return say("warn", "no supervisor delivers: gapless run --webhooks");
  return webhook.circuit_open_since ? say("bad", "its requests fail: tried again by itself") : say("good", "delivers");
}

export function webhooks(page) {
  reading(page, "Webhooks", [
    ["Endpoints", "/v1/webhooks", (webhooks) => table([
      { title: "name", of: (each) => each.name },
      { title: "topic", of: (each) => each.topic },
      { title: "address", of: (each) => each.url },
      { title: "state", of: state },
      { title: "lag", kind: "number", of: (each) => count(each.lag) },
      { title: "dead", kind: "number", of: (each) => count(each.dead) },
      { title: "last error", hide: true, of: (each) => each.last_error },
      { title: "", of: (each) => {
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
      } },
    ], webhooks, { empty: "No webhook: gapless webhooks add." })],
  ]);
}

export function retention(page) {
  reading(page, "Retention", [
    ["Chunks of the log, the oldest first", "/v1/retention", (chunks) => table([
      { title: "chunk", of: (each) => each.chunk },
      { title: "events", kind: "number", of: (each) => (each.events === null ? "in use" : count(each.events)) },
      { title: "size", kind: "number", of: (each) => bytes(each.bytes) },
      { title: "newest", hide: true, of: (each) => when(each.newest) },
      { title: "stays for", of: (each) => (each.goes ? "goes at the next turn" : el("span", { class: each.is_behind ? "warn" : null }, each.reasons.join("; "))) },
    ], chunks, { empty: "Nothing yet." })],
  ]);
}
