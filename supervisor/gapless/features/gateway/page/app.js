// The page: its addresses, one look at the log every two seconds, and the keyboard.

import { get, Refused } from "./api.js";
import { el, show as fill } from "./dom.js";
import { partitionsOf, remember, withRates } from "./history.js";
import { signIn } from "./account.js";
import { tell } from "./ask.js";
import features from "./features.js"; // made by the gateway: the pages of features
import * as overview from "./pages/overview.js";
import * as topics from "./pages/topics.js";
import * as group from "./pages/group.js";
import * as dead from "./pages/dead.js";

const LOOK_MS = 2000;
const main = document.getElementById("main");
const connection = document.getElementById("connection");

// A room is {name, title, key, pages}: its first word in an address, its name in the menu ("": it is
// not there), its key on the keyboard, and its pages by the number of names behind the first word.
const ROOMS = [overview, topics, group, dead].map((each) => each.default).concat(features);

let status = null; // the newest look
let shown = null; // {update, ended}: the page's use of a look, and its end
const lists = {}; // the address of each list as it was last shown, with its filter

/** The path of an address behind its #, and the query behind that. */
const asked = (hash) => hash.replace(/^#\/?/, "").split("?");

/** The page of an address, and the names in it; null: there is none. */
function pageOf(where) {
  const [first, ...names] = where.split("/");
  const page = ROOMS.find((each) => each.name === first)?.pages[names.length];
  if (!page || names.includes("")) return null;
  try {
    return { page, parts: names.map(decodeURIComponent) };
  } catch {
    return null;
  }
}

/** Show the page of the address; a page returns its use of each look. */
function show() {
  shown?.ended.abort();
  const [where, query] = asked(location.hash);
  const ended = new AbortController();
  shown = { update: () => {}, ended };
  for (const link of document.querySelectorAll("nav a")) {
    const [here] = asked(link.hash);
    if (here === where.split("/")[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const found = pageOf(where);
  if (found) {
    const { page, parts } = found;
    main.replaceChildren();
    if (!parts.length) lists[where] = location.hash;
    shown.update = page({ main, parts, query: new URLSearchParams(query), signal: ended.signal }) || (() => {});
    const partitions = partitionsOf(location.hash);
    if (status && ["none", status.has].includes(partitions)) shown.update(status);
    else if (status) look(); // for the partitions of this group
    document.title = [...parts, document.querySelector("nav [aria-current]")?.textContent, "gapless"].filter(Boolean).join(" · ");
    return;
  }
  fill(main, el("p", { class: "empty" }, "There is no such page: "), el("a", { href: "#/" }, "to the overview"));
}

let looking = 0;
async function look() {
  clearTimeout(looking);
  if (!document.hidden) {
    try {
      const has = partitionsOf(location.hash);
      const found = { ...(await get("/v1/status", { partitions: has })), has };
      remember(found);
      status = withRates(found, status);
      connection.textContent = `${found.database.name} · ${new Date(found.taken_at).toLocaleTimeString()}`;
      connection.className = "quiet";
      if (["none", has].includes(partitionsOf(location.hash))) shown.update(status);
    } catch (error) {
      connection.textContent = error instanceof Refused ? error.message : "the gateway does not answer";
      connection.className = "bad";
      if (error instanceof Refused && error.status === 401 && (await signIn())) return look();
    }
  }
  clearTimeout(looking);
  looking = setTimeout(look, LOOK_MS);
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
  const [first, ...rest] = asked(location.hash)[0].split("/");
  return rest.length && pageOf(first) ? lists[first] || `#/${first}` : "#/";
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

document.querySelector("nav").append(...ROOMS.filter((each) => each.title).map((each) => el("a", { href: `#/${each.name}` }, each.title)));

const theme = (wanted) => {
  document.documentElement.dataset.theme = wanted;
  localStorage.setItem("gapless-theme", wanted);
};
theme(localStorage.getItem("gapless-theme") || (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"));
document.getElementById("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
document.querySelector(".jump").addEventListener("click", (event) => (event.preventDefault(), main.focus())); // no page of that name
addEventListener("hashchange", () => {
  show();
  if (document.activeElement === document.body) main.focus({ preventScroll: true }); // its element is gone
});
addEventListener("look", look);
document.addEventListener("visibilitychange", () => document.hidden || look());

show();
look();
