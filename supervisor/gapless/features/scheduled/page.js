// Schedules, and events that wait for their time.

import { path, post } from "../api.js";
import { action } from "../ask.js";
import { el, table } from "../dom.js";
import { reading, when } from "../reading.js";
import { count } from "../words.js";

export default { name: "later", title: "Later", key: "l", pages: { 0: later } };

function later(page) {
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
