// The page: its addresses, one look at the log every two seconds, and the keyboard.

import { asked, lists } from "./address.js";
import { signIn } from "./account.js";
import { get, Refused } from "./api.js";
import { el, focusable, show } from "./dom.js";
import { fillMenu, mark, sayStale, sayState, trail } from "./frame.js";
import { partitionsOf, remember, withRates } from "./history.js";
import { tell } from "./ask.js";
import features from "./features.js"; // made by the gateway: the pages of features
import * as overview from "./pages/overview.js";
import * as topics from "./pages/topics.js";
import * as group from "./pages/group.js";
import * as dead from "./pages/dead.js";
import * as server from "./pages/server.js";
import * as doctor from "./pages/doctor.js";
import * as audit from "./pages/audit.js";
import * as keys from "./pages/keys.js";
import * as members from "./pages/members.js";

const LOOK_MS = 2000;
const SECOND_LOOK_MS = 500; // rates need two
const AGE_S = 1; // less than between two looks, so that they differ: rates are found from both
const main = document.getElementById("main");

// A room is {name, title, key, pages}: its first word in an address, its name in the menu ("": it is
// not there), its key on the keyboard, and its pages by the number of names behind the first word.
const ROOMS = [overview, topics, group, dead].map((each) => each.default).concat(features, [server, doctor, members, keys, audit].map((each) => each.default));

let status = null; // the newest look
let shown = null; // {update, ended}: the page's use of a look, and its end
let isLost = false; // the newest look failed
const LOOKING = "looking at the log …";
const waiting = el("p", { class: "empty" }, LOOKING); // below a page that needs a look

const NO_NAME = /^\.{0,2}$/; // a browser takes . and .. in the address of a request for folders

/** The page of an address, and the names in it; null: there is none. */
function pageOf(where) {
  const [first, ...names] = where.split("/");
  const room = ROOMS.find((each) => each.name === first);
  const page = room?.pages[names.length];
  try {
    const parts = names.map(decodeURIComponent);
    return page && !parts.some((each) => NO_NAME.test(each)) ? { room, page, parts } : null;
  } catch {
    return null;
  }
}

/** The steps from the list of a page down to it: names between two pages are one step. */
function stepsTo(where, { room, parts }) {
  const [first, ...names] = where.split("/");
  const steps = [room.pages[0] ? [room.title, lists[first] || `#/${first}`] : ["Overview", lists[""] || "#/"]];
  let from = 0;
  for (let to = 1; to <= parts.length; to++) {
    if (!room.pages[to]) continue;
    const href = to < parts.length ? `#/${[first, ...names.slice(0, to)].join("/")}` : null;
    const words = parts.slice(from, to).join("/");
    steps.push([to < 3 ? words : words.replace(/(\d+)\/(\d+)$/, "$1@$2"), href]); // of an event: partition@offset
    from = to;
  }
  return steps;
}

/** Show the page of the address; a page returns its use of each look. */
function turn() {
  shown?.ended.abort();
  const [where, query] = asked();
  const ended = new AbortController();
  shown = { update: () => {}, ended };
  const found = pageOf(where);
  mark(found?.room, found?.parts || []);
  if (!found) return main.replaceChildren(el("p", { class: "empty" }, "There is no such page: ", el("a", { href: "#/" }, "to the overview")));
  const { page, parts } = found;
  const room = el("div", { class: "room" });
  main.replaceChildren(...(parts.length ? [trail(stepsTo(where, found))] : []), room);
  if (!parts.length) lists[where] = location.hash;
  const update = page({ main: room, parts, query: new URLSearchParams(query), signal: ended.signal });
  if (update) {
    shown.update = (found) => (waiting.remove(), update(found));
    main.append(waiting);
  }
  const partitions = partitionsOf(location.hash);
  if (status && ["none", status.has].includes(partitions)) return shown.update(status);
  if (status) look(); // for the partitions of this group
}

let looking = 0;
let looks = 0;
/** Look at the log, or see a look of another page that began at most `age` seconds ago. */
async function look(age = 0) {
  const number = ++looks; // the answer to an older look may come after that to a newer one, and counts not then
  clearTimeout(looking);
  const has = partitionsOf(location.hash);
  let found = null;
  if (!document.hidden) {
    try {
      found = { ...(await get("/v1/status", { partitions: has, age_s: age })), has };
    } catch (error) {
      if (number !== looks) return;
      const isOut = error instanceof Refused && error.status === 401;
      const isForbidden = error instanceof Refused && error.status === 403;
      isLost = true;
      sayStale(isOut ? "signed out" : isForbidden ? "no right to look" : error.message);
      show(waiting, isForbidden ? `No look at the log: ${error.message}` : LOOKING);
      if (isOut && (await signIn(error.message))) return look();
    }
  }
  if (number !== looks) return;
  looking = found && !status ? setTimeout(look, SECOND_LOOK_MS) : setTimeout(look, LOOK_MS, AGE_S);
  if (!found) return;
  status = withRates(found, status);
  remember(status);
  sayState(status);
  if (["none", has].includes(partitionsOf(location.hash))) shown.update(status);
  dispatchEvent(new CustomEvent("looked", { detail: status }));
  if (!isLost) return;
  isLost = false;
  dispatchEvent(new Event("look")); // lists that could not be read
}

const KEYS = {
  ...Object.fromEntries(ROOMS.filter((each) => each.key).map((each) => [each.key, [each.title.toLowerCase(), () => (location.hash = `#/${each.name}`)]])),
  j: ["next row", () => step(1)],
  k: ["row before", () => step(-1)],
  "/": ["filter or search", () => main.querySelector("input")?.focus()],
  "?": ["this list", () => tell(Object.entries(KEYS).map(([key, [what]]) => `${key} ${what}`).join(" · ") + " · enter opens, escape goes up")],
};

/** The list that a page is of, or the overview. */
function up() {
  const [first, ...rest] = asked()[0].split("/");
  return rest.length && pageOf(first) ? lists[first] || `#/${first}` : lists[""] || "#/";
}

function step(by) {
  const rows = [...main.querySelectorAll("tr[data-href]")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("dialog").open) return;
  const inField = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key === "Escape") return inField ? event.target.blur() : (location.hash = up());
  if (inField) return;
  if (event.key === "Enter" && event.target.dataset?.href) location.hash = event.target.dataset.href;
  else if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key][1]();
  }
});

main.addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-href]");
  if (row && !event.target.closest("a, button, input") && !String(getSelection())) location.hash = row.dataset.href;
});

fillMenu(ROOMS);
document.querySelector(".jump").addEventListener("click", (event) => (event.preventDefault(), main.focus())); // no page of that name
addEventListener("hashchange", ({ newURL }) => {
  turn();
  if (newURL || document.activeElement === document.body) arrive(); // without: the same page, drawn anew
});

/** Have the focus at the beginning of the page. */
function arrive() {
  const at = main.querySelector("h1") || main;
  at.tabIndex = -1;
  at.focus();
}

// The focus of an element that goes goes to the one beside it, or to the beginning of the page: never to the window.
let focused = null;
main.addEventListener("focusin", ({ target }) => (focused = target));
main.addEventListener("focusout", ({ target }) => setTimeout(() => target === focused && target.isConnected && (focused = null))); // it was left
new MutationObserver((changes) => {
  const isLost = focused && (!focused.isConnected || !focused.checkVisibility()) && [focused, document.body].includes(document.activeElement);
  const change = isLost && changes.find(({ target, removedNodes }) => target.hidden || [...removedNodes].some((each) => each.contains(focused)));
  if (!change) return;
  const { previousSibling: before, nextSibling: after } = change.type === "attributes" ? change.target : change;
  const near = (each, at) => each?.isConnected && each.checkVisibility?.() && (each.tabIndex < 0 ? focusable(each).at(at) : each);
  const beside = near(after, 0) || near(before, -1);
  beside ? beside.focus({ preventScroll: true }) : arrive();
}).observe(main, { childList: true, subtree: true, attributeFilter: ["hidden"] });
addEventListener("look", () => look());
document.addEventListener("visibilitychange", () => document.hidden || look());

turn();
look(AGE_S);
