// The newest events of a topic, as they come, with filters that are in the address.

import { address } from "../address.js";
import { exact, getEvents, path, stream } from "../api.js";
import { cells, el, head, say, show } from "../dom.js";
import { chips, filterForm } from "../filter.js";
import { short } from "../payload.js";
import { when } from "../reading.js";
import { count, plural } from "../words.js";

const PAGE = 50;
const ROWS = 1_000; // at most; the oldest ones go first
const ARRIVED = 200; // events between two drawings; of more, the newest
const DRAW_MS = 250;
const SHORT_CHARACTERS = 200;
const NO_OFFSET = "999999999999999999";

const FIELDS = [
  { name: "key", title: "key" },
  { name: "types", title: "type", hint: "order.*, mail.sent" },
  { name: "where", title: "payload", hint: "$.total > 100" },
  { name: "at", title: "offset", hint: "3@17, or 3: a partition" },
  { name: "since", title: "from", type: "datetime-local" },
  { name: "until", title: "until", type: "datetime-local" },
  { name: "transaction_id", title: "transaction" },
];
const ofPlace = (event) => `${event.partition}@${event.offset}`;

/** The filters of an address. */
export const filtersIn = (query) => Object.fromEntries(FIELDS.map(({ name }) => [name, query.get(name)]).filter(([, value]) => value));

/** A form that puts its values into the address, and a chip for each of these, which takes it out. */
function filters(topic, given) {
  const href = (wanted) => address(["topics", topic], wanted);
  const isOpen = matchMedia("(min-width: 701px)").matches;
  return [el("details", { open: isOpen }, el("summary", {}, "Filter"), filterForm(FIELDS, given, href)), chips(FIELDS, given, href)];
}

/** The parameters of a search for these filters. Throws an error of one sentence. */
function parameters({ at, ...given }) {
  const place = /^(\d{1,4})(?:@(\d{1,17}))?$/.exec(at ?? "");
  if (at && !place) throw new Error(`${at} is no place: write partition@offset, such as 3@17, or the number of a partition.`);
  if (given.since && given.until && given.since > given.until) throw new Error("The time from is after the time until, so no event is between them.");
  return { ...given, before: place ? `${place[1]}@${place[2] ? Number(place[2]) + 1 : NO_OFFSET}` : "" };
}

/** Whether new events may be among the wanted ones. */
const mayGrow = ({ until, transaction_id: transaction, at }) => !until && !transaction && !(at || "").includes("@");

export function newest(topic, given, signal) {
  const columns = [
    { title: "place", kind: "time", of: (event) => el("a", { href: address(["topics", topic, event.partition, event.offset]) }, ofPlace(event)) },
    { title: "published", kind: "time", of: (event) => when(event.created_ts) },
    { title: "key", kind: "key", of: (event) => event.key ?? event.host_id },
    { title: "type", kind: "place", of: (event) => event.event_type },
    { title: "payload", of: short },
  ];
  const body = el("tbody");
  const state = el("output", { class: "quiet" });
  const waiting = el("span", { class: "quiet" }); // outside: no number is read aloud with each event
  const pause = el("button", { type: "button", "aria-pressed": "false" }, "Pause");
  const foot = el("div");
  const list = { body, columns, topic, rows: new Map(), older: new Map() };
  const arrived = []; // and not drawn yet
  let skipped = 0; // events before those, for which there was no room
  let told = "";
  let isRead = false; // the newest ones are there
  let isFailed = false; // they could not be read
  let drawing = 0;
  const isPaused = () => pause.getAttribute("aria-pressed") === "true";
  const isAway = () => body.getBoundingClientRect().top < 0; // the reader is below the newest rows, which must not move
  const tell = () => {
    const isHeld = isPaused() || (isAway() && arrived.length > 0);
    say(state, isPaused() ? "paused" : isHeld ? "new events are shown at the top of the list" : told);
    show(waiting, isHeld && plural(skipped + arrived.length, "new event"));
  };
  const draw = () => {
    drawing = 0;
    if (!isRead || signal.aborted) return;
    if (!isPaused() && !isAway()) {
      if (skipped) body.prepend(el("tr", {}, el("td", { class: "quiet", colspan: columns.length }, `${plural(skipped, "event")} came too fast to be listed here: a filter finds them`)));
      skipped = 0;
      for (const event of arrived.splice(0)) add(list, event, true);
      while (body.rows.length > ROWS) drop(list, body.lastChild);
    }
    tell();
    ending(list, foot, more);
  };
  const more = async () => {
    const isFirst = !isRead;
    isFailed = false;
    try {
      const before = isFirst ? parameters(given).before : [...list.older].map((each) => each.join("@")).join(",");
      const found = await getEvents(path("topics", topic, "search"), { ...parameters(given), before, limit: PAGE, payload_chars: SHORT_CHARACTERS }, signal);
      list.older = new Map((found.older || "").split(",").filter(Boolean).map((each) => each.split("@").map(Number)));
      list.isCut = !found.is_complete && !found.older;
      list.lookedAt = found.looked_at;
      for (const event of found.events) add(list, event, false);
      isRead = true;
      draw();
    } catch (error) {
      if (!signal.aborted) show(foot, el("p", { class: "bad" }, error.message), isRead && el("button", { type: "button", onclick: more }, "Try again"));
      isFailed = isFirst;
      if (isFailed) told = ""; // the stream is refused for the same reason
      tell();
    }
  };
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!isPaused()));
    pause.textContent = isPaused() ? "Continue" : "Pause";
    draw();
  });
  const isLive = mayGrow(given);
  if (!isLive) addEventListener("look", () => isFailed && more(), { signal });
  if (isLive) addEventListener("scroll", () => arrived.length && (drawing ||= setTimeout(draw, DRAW_MS)), { signal, passive: true });
  show(foot, el("p", { class: "quiet" }, "reading …"));
  begin();
  return [filters(topic, given), isLive && el("div", { class: "buttons follows" }, pause, state, waiting), el("table", { class: "cards" }, head(columns), body), foot];

  /** Follow first, then read: so no event is between them. */
  async function begin() {
    try {
      parameters(given);
    } catch (error) {
      return show(foot, el("p", { class: "bad" }, error.message));
    }
    if (isLive) await new Promise((follows) => {
      const wanted = { types: given.types, where: given.where, partition: given.at };
      stream(path("topics", topic, "stream"), wanted, (each) => {
        const event = exact(each.data);
        if (given.key && (event.key ?? event.host_id) !== given.key) return;
        arrived.push(event);
        if (arrived.length > (isPaused() || isAway() ? ROWS : ARRIVED)) {
          arrived.shift();
          skipped++;
        }
        drawing ||= setTimeout(draw, DRAW_MS);
      }, (text) => {
        told = text;
        tell();
        follows();
        if (isFailed && text === "live") more();
      }, signal).then(follows);
    });
    await more();
  }
}

/** Show an event, unless it is there. */
function add({ body, columns, topic, rows }, event, isNew) {
  if (rows.has(ofPlace(event))) return;
  const row = el("tr", { class: isNew ? "new" : null, "data-href": address(["topics", topic, event.partition, event.offset]), tabindex: "0" }, cells(columns, event));
  row.event = { partition: event.partition, offset: event.offset };
  rows.set(ofPlace(event), row);
  if (isNew) body.prepend(row);
  else body.append(row);
}

/** Let go of the last row: the next page of older ones has its event. */
function drop({ older, rows }, row) {
  row.remove();
  if (!row.event) return; // of events that were not listed
  older.set(row.event.partition, Math.max(older.get(row.event.partition) || 0, row.event.offset + 1));
  rows.delete(ofPlace(row.event));
}

/** The end of the list: more events, or their absence. */
function ending({ body, older, isCut, lookedAt }, foot, more) {
  const none = body.rows.length === 0;
  const looked = `${none ? "No such event" : "No more"} among the newest ${count(lookedAt)} events; `;
  const button = older.size > 0 && el("button", { type: "button", onclick: more }, none ? "Search older ones" : "Older events");
  show(foot,
    none && !older.size && !isCut && el("p", { class: "empty" }, "No such event."),
    none && older.size > 0 && el("p", { class: "empty" }, looked, "older ones may be."),
    isCut && el("p", { class: "quiet" }, "There may be older ones: narrow the time, or name a partition."),
    button);
}
