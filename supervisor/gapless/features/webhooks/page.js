// Endpoints that are called with events.

import { path, post } from "../api.js";
import { action } from "../ask.js";
import { el, table } from "../dom.js";
import { reading } from "../reading.js";
import { count, plural } from "../words.js";

export default { name: "webhooks", title: "Webhooks", key: "w", pages: { 0: webhooks } };

function state(webhook) {
  const say = (level, text) => el("span", { class: level }, text);
  if (webhook.paused) return say("warn", webhook.pause_reason ? `paused: ${webhook.pause_reason}` : "paused");
  if (!webhook.is_run) return say("warn", "no supervisor delivers: gapless run --webhooks");
  return webhook.circuit_open_since ? say("bad", "its requests fail: tried again by itself") : say("good", "delivers");
}

function webhooks(page) {
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
