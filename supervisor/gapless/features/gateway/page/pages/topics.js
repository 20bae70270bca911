// Topics: the ends of their partitions, new events, and a search.

import { exact, getEvents, path, stream } from "../api.js";
import { cells, el, head, section, show, table } from "../dom.js";
import { count, name, plural } from "../words.js";

export default { name: "topics", title: "Topics", key: "t", pages: { 0: topics, 1: topic } };

const TAIL_ROWS = 200;

function topics({ main }) {
  const columns = [
    { title: "topic", of: (each) => el("a", { href: href(each) }, each.topic) },
    { title: "partitions", kind: "number", of: (each) => count(each.partition_count) },
    { title: "events", kind: "number", of: (each) => count(each.events) },
    { title: "pending", kind: "number", of: (each) => count(each.pending) },
  ];
  return (status) => {
    const rows = [...status.topics].sort((a, b) => a.topic.localeCompare(b.topic));
    show(main, el("h1", {}, "Topics"), table(columns, rows, { href, dense: true, empty: "No topic yet: gapless topics create NAME." }));
  };
}

const href = (each) => `#/topics/${encodeURIComponent(each.topic)}`;

function topic({ main, parts: [topic], signal }) {
  const live = el("div");
  const results = el("div", { "aria-live": "polite" });
  main.append(el("h1", {}, topic), live, section("Search", search(topic, results, signal), results), section("Live", ...tail(topic, signal)));
  return (status) => {
    const found = status.topics.find((each) => each.topic === topic);
    if (!found) return show(live, el("p", { class: "empty" }, "There is no such topic."));
    const readers = status.groups.filter((group) => group.topic === topic);
    show(live,
      el("p", {}, `${plural(found.events, "event")} in ${plural(found.partition_count, "partition")}; read by `,
        readers.length ? readers.map((group, i) => [i ? ", " : "", el("a", { href: `#/groups/${encodeURIComponent(group.group)}/${encodeURIComponent(topic)}` }, group.group)]) : "nobody"),
      el("p", { class: "quiet" }, "log ends: ", found.partitions.map((each) => `${each.partition}: ${count(each.log_end_offset)}`).join("  ")));
  };
}

const COLUMNS = [
  { title: "partition", kind: "number", of: (event) => event.partition },
  { title: "offset", kind: "number", of: (event) => event.offset },
  { title: "key", of: (event) => event.key },
  { title: "type", of: (event) => event.event_type },
  { title: "published", kind: "time", hide: true, of: (event) => event.created_ts && new Date(event.created_ts).toLocaleTimeString() },
  { title: "payload", of: (event) => payload(event) },
];

/** The payload as text, short until it is opened. */
function payload(event) {
  const text = JSON.stringify(event.payload);
  if (text === undefined) return "–";
  if (text.length <= 160) return el("code", {}, text);
  return el("details", {}, el("summary", {}, el("code", {}, text.slice(0, 120), " …")), el("pre", {}, JSON.stringify(event.payload, null, 2)));
}

function search(topic, results, signal) {
  const field = (title, given, type = "text") => el("label", {}, title, el("input", { name: given, type, autocomplete: "off", spellcheck: "false" }));
  const form = el("form", {},
    field("key", "key"), field("transaction", "transaction_id"), field("type", "types"), field("from", "since", "datetime-local"), field("until", "until", "datetime-local"),
    el("button", { class: "main" }, "Search"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(form));
    for (const time of ["since", "until"]) if (given[time]) given[time] = new Date(given[time]).toISOString();
    show(results, el("p", { class: "quiet" }, "searching …"));
    try {
      const found = await getEvents(path("topics", topic, "search"), { ...given, limit: 100 }, signal);
      show(results,
        el("p", { class: "quiet" }, found.is_complete ? plural(found.events.length, "event") : `the newest ${plural(found.events.length, "event")} of those looked at; narrow the time to see others`),
        table(COLUMNS, found.events, { empty: "no such event" }));
    } catch (error) {
      show(results, el("p", { class: "bad" }, error.message));
    }
  });
  return form;
}

function tail(topic, signal) {
  const state = el("span", { class: "quiet" }, "not started");
  const types = el("input", { name: "types", placeholder: "order.*", autocomplete: "off" });
  const start = el("button", { type: "submit", class: "main" }, "Watch");
  const body = el("tbody");
  const rows = el("table", { class: "cards" }, head(COLUMNS), body);
  let watching = null;
  signal.addEventListener("abort", () => watching?.abort());
  const form = el("form", {}, el("label", {}, "types", types), start, state);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (watching) {
      watching.abort();
      watching = null;
      start.textContent = "Watch";
      state.textContent = "stopped";
      return;
    }
    watching = new AbortController();
    start.textContent = "Stop";
    body.replaceChildren();
    stream(path("topics", topic, "stream"), { types: types.value }, (event) => {
      body.prepend(el("tr", { class: "new" }, cells(COLUMNS, exact(event.data))));
      while (body.rows.length > TAIL_ROWS) body.lastChild.remove();
    }, (text) => (state.textContent = text), watching.signal);
  });
  return [form, rows];
}
