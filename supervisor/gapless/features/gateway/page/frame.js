// The frame around each page: the menu, the path to the page, the state of the database, dark and light.

import { el, plain, say, show } from "./dom.js";
import { plural } from "./words.js";

const connection = document.getElementById("connection");
const stale = document.getElementById("stale");
const verdict = document.getElementById("said");
const menu = document.getElementById("menu");
const pages = document.getElementById("pages");
let title = "gapless";
let trouble = 0; // problems of the last look
let looked = null; // its time

/** Fill the menu with the rooms that have a title; those with menu: "more" come last, under that word. */
export function fillMenu(rooms) {
  const titled = rooms.filter((each) => each.title);
  const links = (found) => found.map((each) => el("a", { href: `#/${each.name}` }, each.title));
  const more = links(titled.filter((each) => each.menu === "more"));
  show(pages, links(titled.filter((each) => each.menu !== "more")), more.length > 0 && el("span", { class: "caption" }, "More"), more);
}

/** Mark the place of a page in the menu, and name it in the title of the window. Pages of rooms that are not there are of the overview. */
export function mark(room, parts) {
  open(false);
  const here = `#/${room?.title ? room.name : ""}`;
  for (const link of pages.querySelectorAll("a")) {
    if (room && link.getAttribute("href") === here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  title = [...parts, room?.title || (room && "Overview"), "gapless"].filter(Boolean).join(" · ");
  name();
}

const name = () => (document.title = (trouble ? `(${trouble}) ` : "") + plain(title));

/** The way to a page below a list: [words, address], the last one without an address. */
export const trail = (steps) =>
  el("nav", { class: "trail", "aria-label": "path" }, el("ol", {}, steps.map(([words, href], i) =>
    el("li", {}, href ? el("a", { href }, words) : el("span", { "aria-current": i === steps.length - 1 ? "page" : null }, words)))));

/** Say the state of the database as of a look. */
export function sayState({ problems, database, taken_at }) {
  looked = taken_at;
  trouble = problems.length;
  const level = problems.some((each) => each.is_bad) ? "bad" : trouble ? "warn" : "good";
  const time = new Date(taken_at).toLocaleTimeString();
  const words = trouble ? `${trouble} to look at` : "well";
  show(connection, el("span", { class: `state ${level}` }, words), ` ${database.name} `, el("span", { class: "quiet wide" }, time));
  say(verdict, `${database.name}: ${words}`);
  connection.title = `database ${database.name}, ${plural(trouble, "problem")}, looked at ${time}`;
  say(stale);
  name();
}

/** Say that the page is not up to date, and since when. */
export function sayStale(reason) {
  show(connection, el("span", { class: "state bad" }, reason));
  connection.title = "";
  say(verdict, !looked && reason);
  say(stale, looked && `Stale since ${new Date(looked).toLocaleTimeString()}: ${reason}. The page tries again by itself.`);
}

const open = (isOpen) => menu.setAttribute("aria-expanded", String(isOpen));
menu.addEventListener("click", () => open(menu.getAttribute("aria-expanded") !== "true"));
menu.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || menu.getAttribute("aria-expanded") !== "true") return;
  event.stopPropagation();
  open(false);
});

const theme = (wanted) => {
  document.documentElement.dataset.theme = wanted;
  localStorage.setItem("gapless-theme", wanted);
};
theme(localStorage.getItem("gapless-theme") || (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"));
document.getElementById("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
