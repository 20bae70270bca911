// Schedules, and events that wait for their time.

import { address } from "../address.js";
import { path, post } from "../api.js";
import { action } from "../ask.js";
import { el, show, table } from "../dom.js";
import { filterForm } from "../filter.js";
import { reading, when } from "../reading.js";
import { count, plural } from "../words.js";

export default { name: "later", title: "Later", key: "l", menu: "more", pages: { 0: later } };

const EVENTS = 200;
const FIELDS = [
  { name: "topic", title: "topic" }, { name: "key", title: "key" },
  { name: "since", title: "due from", type: "datetime-local" }, { name: "until", title: "until", type: "datetime-local" },
];

function later(page) {
  const chosen = new Set(); // the ids of events with a check mark
  reading(page, "For later", [["Schedules", "/v1/schedules", schedules]]);
  const wanted = { ...Object.fromEntries(page.query), limit: EVENTS };
  page.main.append(...[addition(page)].filter(Boolean));
  reading(page, "", [["Events that wait for their time", "/v1/later", (events) => waiting(events, chosen), wanted]], filterForm(FIELDS, wanted, (given) => address(["later"], given)));
}

function schedules(all) {
  return table([
    { title: "name", of: (each) => each.name },
    { title: "when", of: (each) => (each.cron ? `${each.cron} ${each.zone}` : `every ${each.every}`) },
    { title: "topic", of: (each) => each.topic },
    { title: "next", of: (each) => (each.paused ? el("span", { class: "warn" }, "paused") : when(each.next_due) || el("span", { class: "bad" }, each.trouble || "never")) },
    { title: "fired", kind: "number", of: (each) => count(each.fired) },
    { title: "", of: (each) => {
      const at = path("schedules", each.name);
      return el("div", { class: "buttons" },
        each.paused
          ? action("Resume", { question: `Resume ${each.name}?`, done: "resumed" }, () => post(`${at}/resume`))
          : action("Pause", { question: `Pause ${each.name}?`, done: "paused" }, () => post(`${at}/pause`)),
        action("Run now", { question: `Run ${each.name} now, beside its times?`, done: "published" }, () => post(`${at}/run`)),
        action("Remove", { question: `Remove ${each.name}?`, text: "Its published events stay.", danger: true, yes: "Remove it", done: "removed" }, () => post(`${at}/remove`)));
    } },
  ], all, { empty: "No schedule yet: add one, or gapless schedule add NAME TOPIC --cron '0 3 * * *'." });
}

const INPUTS = [
  ["name", "name", { required: true }], ["topic", "topic", { required: true }],
  ["cron", "cron: minute hour day month weekday", { placeholder: "0 3 * * *" }], ["every", "or every", { placeholder: "30s, 15m, 12h, 1d" }],
  ["zone", "zone", { value: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC" }],
  ["event_type", "type (empty: the name)"], ["key", "key"], ["payload", "payload, JSON (empty: name and time)"],
];

/** The form of a new schedule, with its next times as soon as it makes sense; nothing where nothing may be changed. */
function addition({ signal }) {
  const deed = el("div");
  const form = el("form", {}, INPUTS.map(([name, title, more]) => el("label", {}, title, el("input", { name, autocomplete: "off", spellcheck: "false", ...more }))));
  const times = el("p", { "aria-live": "polite", id: "times" });
  const given = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
  const add = ({ name, ...more }, dry) => post(path("schedules", name), { ...more, dry_run: dry });
  const button = () => action("Add", { question: `Add schedule ${given().name} to topic ${given().topic}?`, text: "A schedule of this name gets these values.", done: (said) => `${said.name} was added` }, () => add(given(), false));
  if (!button()) return null;
  let asked = 0;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", async () => {
    const number = ++asked;
    show(deed);
    show(times);
    if (!form.checkValidity() || !(given().cron || given().every)) return;
    await new Promise((done) => setTimeout(done, 400)); // until nobody types
    if (number !== asked || signal.aborted) return;
    try {
      const found = await add(given(), true);
      if (number !== asked) return;
      show(times, "next: ", found.next_times.map((each, i) => [i ? ", " : "", when(each)]));
      show(deed, button());
    } catch (error) {
      if (number === asked) show(times, el("span", { class: "bad" }, error.message));
    }
  });
  return el("details", {}, el("summary", {}, "Add a schedule"), form, times, deed);
}

function waiting(events, chosen) {
  for (const id of chosen) if (!events.some((each) => each.scheduled_id === id)) chosen.delete(id);
  const deeds = el("div", { class: "buttons" });
  const ids = () => [...chosen];
  const told = (said) => `${count(said.filter((each) => each.cancelled).length)} cancelled` + (said.every((each) => each.cancelled) ? "" : ", the others were delivered before");
  const draw = () => show(deeds, chosen.size > 0 && action("Cancel these", {
    question: `Cancel ${plural(chosen.size, "event")}?`, text: "They will not be delivered.", danger: true, yes: "Cancel them", done: told,
  }, () => post("/v1/later/cancel", { scheduled_ids: ids() })));
  const box = ({ scheduled_id: id, topic, key }) => el("input", {
    type: "checkbox", name: `event-${id}`, checked: chosen.has(id), "aria-label": `event ${id} of ${topic}, key ${key}`,
    onchange: (event) => (event.target.checked ? chosen.add(id) : chosen.delete(id), draw()),
  });
  draw();
  return [deeds, table([
    { title: "", of: box },
    { title: "deliver at", of: (each) => when(each.deliver_at) },
    { title: "topic", of: (each) => each.topic },
    { title: "key", of: (each) => each.key },
    { title: "type", of: (each) => each.event_type },
    { title: "by", of: (each) => each.scheduled_by },
    { title: "", of: (each) => action("Cancel", { question: `Cancel event ${each.scheduled_id} of ${each.topic}?`, danger: true, yes: "Cancel it", done: (said) => (said.cancelled ? "cancelled" : "too late: it was delivered") }, () => post(`${path("later", each.scheduled_id)}/cancel`)) || "" },
  ], events, { empty: "Nothing waits for its time." }),
  events.length === EVENTS && el("p", { class: "quiet" }, `These are the next ${EVENTS}; a filter finds others.`)];
}
