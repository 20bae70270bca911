// Questions before a change, and its result.

import { alike, el, identity, show } from "./dom.js";
import { mayOperate } from "./api.js";

const dialog = document.getElementById("dialog");
const toast = document.getElementById("toast");
let forget = 0;

/** Show a message, for some seconds. */
export function tell(text, isBad = false) {
  show(toast, text);
  toast.className = isBad ? "bad" : "";
  clearTimeout(forget);
  forget = setTimeout(() => (toast.textContent = ""), isBad ? 15_000 : 6_000);
}

/** Put a text into the clipboard; where the browser has none, which is so without TLS, say how to copy it. */
export async function copy(text, said = "copied") {
  try {
    await navigator.clipboard.writeText(text);
    tell(said);
  } catch {
    tell("This browser does not let the page copy: select the text, and copy it by keyboard.", true);
  }
}

/** Ask, with fields ({name, title, value, rows, type, options}); resolves to their values, or null for no. */
export function ask(title, { text = "", fields = [], yes = "Yes", danger = false } = {}) {
  const inputs = fields.map((field) => [field.name, input(field)]);
  const form = el(
    "form", { method: "dialog" },
    el("h2", {}, title),
    text && el("div", {}, text),
    inputs.map(([, made], i) => el("label", { class: "field" }, fields[i].title, made)),
    el("div", { class: "buttons" },
      el("button", { value: "yes", class: danger ? "danger" : "main" }, yes),
      el("button", { value: "no", formnovalidate: true, autofocus: !inputs.length }, "No")), // not the button of a change
  );
  const asker = document.activeElement;
  const what = identity(asker);
  show(dialog, form, toast); // outside of an open dialog nothing is read aloud
  dialog.returnValue = "";
  dialog.showModal();
  const leave = () => dialog.close("no"); // a question goes with its page
  addEventListener("hashchange", leave, { once: true });
  return new Promise((done) => {
    dialog.onclose = () => {
      removeEventListener("hashchange", leave);
      document.body.append(toast);
      if (!asker.isConnected) alike(document.getElementById("main"), what)?.focus({ preventScroll: true }); // it was drawn anew
      done(dialog.returnValue === "yes" ? Object.fromEntries(inputs.map(([name, made]) => [name, made.value])) : null);
    };
  });
}

function input(field) {
  const common = { name: field.name, autocomplete: "off", spellcheck: "false" };
  if (field.options) return el("select", common, field.options.map((each) => el("option", { value: each }, each)));
  if (field.rows) {
    const made = el("textarea", { ...common, rows: field.rows });
    made.value = field.value || "";
    return made;
  }
  return el("input", { ...common, type: field.type || "text", value: field.value || "", required: field.required });
}

/** A button that asks, does, tells, and looks again; null where nothing may be changed. With a preview (given => text) it asks again with its text. */
export function action(title, { question, text, fields, danger, yes = title, done, preview }, change) {
  if (!mayOperate()) return null;
  const button = el("button", { type: "button", class: danger ? "danger" : null, onclick: async () => {
    const given = await ask(question, { text, fields, danger, yes: preview ? "Preview" : yes });
    if (given === null || button.ariaDisabled) return;
    button.ariaDisabled = "true"; // one that is disabled loses the focus
    try {
      if (preview && (await ask(question, { text: await preview(given), danger, yes })) === null) return;
      const answer = await change(given);
      tell(typeof done === "function" ? done(answer) : done);
      dispatchEvent(new Event("look"));
    } catch (error) {
      tell(error.message, true);
      if (error.status === 409) dispatchEvent(new Event("look")); // the page shows another state than the log has
    } finally {
      button.ariaDisabled = null;
    }
  } }, title);
  return button;
}
