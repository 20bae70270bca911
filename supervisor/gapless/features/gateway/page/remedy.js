// The remedy of a problem: a link to the page where it can be done, a command to copy.

import { addressOf } from "./address.js";
import { copy } from "./ask.js";
import { el } from "./dom.js";

/** The nodes of a remedy: its words lead to the page that they name, and its command has a button that copies it. */
export function remedyOf({ remedy, page, command }) {
  const words = withCode(remedy, command);
  return [
    page.length ? el("a", { href: addressOf(page) }, words, " ›") : el("span", {}, words),
    command && el("button", { type: "button", class: "copy", title: `copy ${command}`, "aria-label": `copy ${command}`, onclick: () => copy(command, `copied: ${command}`) }, "copy"),
  ];
}

/** The words with the command in them as code. */
function withCode(remedy, command) {
  const at = command ? remedy.indexOf(command) : -1;
  return at < 0 ? remedy : [remedy.slice(0, at), el("code", {}, command), remedy.slice(at + command.length)];
}
