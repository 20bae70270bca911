// The account in the header: a badge where nothing can be changed, the rights of the key, in and out.

import { enter, leave, mayOperate, readSession, session } from "./api.js";
import { tell } from "./ask.js";
import { el, show } from "./dom.js";

const READ_MS = 30_000;
const main = document.getElementById("main");
let asking = null; // the promise of the form that is open
let could = mayOperate();
let owner = session().caller; // of the looks and drafts in this tab

/** Ask for a key in place of the page until one is accepted; then the page goes on where it was. why: the refusal. */
export function signIn(why) {
  return (asking ??= new Promise((done) => {
    const key = el("input", { name: "key", type: "password", required: true, autocomplete: "current-password", spellcheck: "false" });
    const refusal = el("p", { class: "bad", role: "alert" }, session().caller && why);
    const form = el("form", { class: "sign-in" },
      el("h1", {}, "Sign in"),
      el("p", {}, "This gateway asks for a key. ", el("code", {}, "gapless keys create NAME --scope 'read:*' --scope operate"), " makes one; without operate it only reads."),
      el("label", {}, "API key or token", key),
      refusal,
      el("div", { class: "buttons" }, el("button", { class: "main" }, "Sign in")));
    const appear = () => {
      show(main, form);
      key.focus();
    };
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        await enter(key.value.trim());
      } catch (error) {
        show(refusal, error.message);
        return key.select();
      }
      removeEventListener("hashchange", appear);
      asking = null;
      redraw();
      done(true);
    });
    addEventListener("hashchange", appear); // no other page has anything to show
    appear();
    readSession().catch(() => {}); // of a key that counts no more
  }));
}

/** Have the page of the address drawn again. */
const redraw = () => dispatchEvent(new Event("hashchange"));

/** The reason why nothing can be changed here; null: it can be, or nobody has signed in yet. */
function reason() {
  const { caller, asks_keys, operates } = session();
  if (mayOperate() || (asks_keys && !caller)) return null;
  return operates ? `${caller} has no scope operate: it only reads.` : "This gateway changes nothing: it was started without --operate.";
}

/** A button of the header that says more when it is pointed at, and when it is pressed. */
const note = (text, more, kind) => el("button", { type: "button", class: kind, title: more, onclick: () => tell(more) }, text);

function draw() {
  const { caller, scopes } = session();
  if (owner && caller && owner !== caller) return location.reload(); // they are not for another person
  owner = caller || owner;
  const why = reason();
  const name = caller?.match(/\((.*)\)$/)?.[1] || caller; // of a key: without its id
  show(document.getElementById("account"),
    why && note("read-only", why, "badge"),
    caller && note(name, `${caller} may: ${scopes.join(", ") || "nothing"}`, "caller"),
    caller && el("button", { type: "button", onclick: signOut }, "Sign out"));
  if (could !== mayOperate() && !asking) redraw(); // with its buttons, or without them
  could = mayOperate();
}

async function signOut() {
  try {
    await leave();
    history.replaceState(null, "", "#/");
    location.reload(); // and with the page its looks and drafts
  } catch (error) {
    tell(error.message, true);
  }
}

addEventListener("session", draw);
setInterval(() => document.hidden || readSession().catch(() => {}), READ_MS); // keys are revoked, gateways started anew
draw();
