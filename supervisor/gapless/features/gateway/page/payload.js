// A payload as a tree, as text, or in a few words. All of it is text, and large ones are shown in parts.

import { el, plain, show } from "./dom.js";
import { bytes, plural } from "./words.js";
import { copy } from "./ask.js";

export const SHOWN_CHARACTERS = 100_000; // of a payload, until somebody wants all
const SHORT_CHARACTERS = 160;
const LEAF_CHARACTERS = 1_000;
const BRANCHES = 200; // of a node, at a time
const TEXT_CHARACTERS = 200_000; // of a text, at a time: a browser stands still for the layout of 15 million

/** A place to cut a text at, but not within a character of two units. */
const whole = (text, at) => (text.codePointAt(at - 1) > 0xffff ? at + 1 : at);

/** JSON as text; of a payload that is nested too deep for JavaScript a sentence. */
export function written(value, indent) {
  try {
    return JSON.stringify(value, null, indent) ?? "null";
  } catch (error) {
    if (error instanceof RangeError) return "(nested too deep to be shown as text)";
    throw error;
  }
}

/** The beginning of a payload, in a row. */
export function short(event) {
  const text = event.payload_begins ?? written(event.payload);
  const isCut = text.length > SHORT_CHARACTERS || event.payload_begins !== undefined;
  return el("code", { class: "short" }, text.slice(0, whole(text, SHORT_CHARACTERS)), isCut && " …");
}

/** A button that copies a text. */
export const copyButton = (title, text) => el("button", { type: "button", onclick: () => copy(text()) }, title);

/** A payload as a tree and as text; of one that was cut its beginning. all: () => shows all of it. */
export function payload(event, all) {
  if (event.payload_begins !== undefined)
    return [
      el("p", { class: "quiet" }, `The first ${bytes(event.payload_begins.length)} of a large payload. `, el("button", { type: "button", onclick: all }, "Show all")),
      el("pre", { tabindex: "0" }, event.payload_begins),
    ];
  const body = el("div", { class: "payload" });
  const isTree = isBranch(event.payload);
  const views = { Tree: () => tree(event.payload, true), Text: () => inPieces(written(event.payload, 2)) };
  const choose = (name) => {
    show(body, views[name]());
    for (const each of buttons) each.setAttribute("aria-pressed", String(each.textContent === name));
  };
  const buttons = isTree ? Object.keys(views).map((name) => el("button", { type: "button", onclick: () => choose(name) }, name)) : [];
  const open = (isOpen) => () => {
    for (const each of body.querySelectorAll("details")) each.open = isOpen; // those that are drawn
  };
  choose(isTree ? "Tree" : "Text");
  return [
    el("div", { class: "buttons" }, buttons,
      isTree && el("button", { type: "button", onclick: open(true) }, "Expand"),
      isTree && el("button", { type: "button", onclick: open(false) }, "Collapse"),
      copyButton("Copy payload", () => written(event.payload))),
    body,
  ];
}

/** A text whose end is shown piece by piece. */
function inPieces(text) {
  const made = el("pre", { tabindex: "0" });
  const more = (from) => {
    const to = whole(text, from + TEXT_CHARACTERS);
    made.append(plain(text.slice(from, to)));
    if (to < text.length) made.append(el("button", { type: "button", onclick: (event) => (event.target.remove(), more(to)) }, `${bytes(text.length - to)} more`));
  };
  more(0);
  return made;
}

/** Whether a value has parts; a number that is kept as it was written has none. */
const isBranch = (value) => value !== null && typeof value === "object" && !JSON.isRawJSON?.(value);

/** A node with its branches, which are drawn when it opens. */
function tree(value, isOpen) {
  const branches = Object.entries(value);
  const [begin, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const inside = el("ul");
  const more = (from) => {
    for (const [name, branch] of branches.slice(from, from + BRANCHES)) inside.append(el("li", {}, node(Array.isArray(value) ? null : name, branch, branches.length === 1)));
    const left = branches.length - from - BRANCHES;
    if (left <= 0) return;
    const button = el("button", { type: "button", onclick: () => (button.parentNode.remove(), more(from + BRANCHES)) }, `${plural(left, "more")}`.replace(/s$/, ""));
    inside.append(el("li", {}, button));
  };
  const draw = () => inside.firstChild || more(0);
  if (isOpen) draw();
  return el("details", { open: isOpen, ontoggle: draw }, el("summary", {}, `${begin} ${branches.length} ${end}`), inside);
}

function node(name, value, isOnly) {
  const label = name !== null && el("b", {}, `${JSON.stringify(name)}: `);
  if (!isBranch(value)) return [label, leaf(value)];
  const below = tree(value, isOnly && !isBranch(Object.values(value)[0]));
  below.firstChild.prepend(label || "");
  return below;
}

function leaf(value) {
  const text = written(value);
  if (text.length <= LEAF_CHARACTERS) return el("code", {}, text);
  const made = el("code", {}, text.slice(0, whole(text, LEAF_CHARACTERS)), " … ");
  const all = () => made.replaceWith(inPieces(text));
  return [made, el("button", { type: "button", onclick: (event) => (event.target.remove(), all()) }, `show all ${bytes(text.length)}`)];
}
