// Keys of the gateway: their scopes and last use; a new one is shown once.

import { path, post } from "../api.js";
import { action, ask } from "../ask.js";
import { el, section } from "../dom.js";
import { copyButton } from "../payload.js";
import { paging, when } from "../reading.js";

export default { name: "keys", title: "Keys", menu: "more", pages: { 0: keys } };

const SCOPES = "publish:TOPIC, read:TOPIC, consume:GROUP, operate";

function keys({ main, signal }) {
  const create = action("New key", {
    question: "Make a key?",
    text: `Scopes, with commas: ${SCOPES}; a * at the end of a name stands for any end. You can give scopes that you have, and the key ends with yours at the latest.`,
    fields: [
      { name: "name", title: "name: its owner", required: true },
      { name: "scopes", title: "scopes", required: true },
      { name: "expires", title: "expires after (12h, 90d; empty: never)" },
      { name: "requests_s", title: "requests a second (empty: any number)", type: "number" },
    ],
    yes: "Make it",
    done: (made) => [`key ${made.key_id} was made`, made.expires && `, it ends ${new Date(made.expires).toLocaleString()}`].filter(Boolean).join(""),
  }, async ({ requests_s: rate, ...given }) => {
    const made = await post("/v1/keys", { ...given, ...(rate ? { requests_s: Number(rate) } : {}) });
    await showOnce(given.name, made);
    return made;
  });
  main.append(el("h1", {}, "Keys"), el("div", { class: "buttons" }, create), section("Keys of the gateway", paging(signal, "/v1/keys", () => ({}), {
    columns: [
      { title: "name", of: (each) => each.name },
      { title: "id", of: (each) => each.key_id },
      { title: "scopes", of: (each) => each.scopes.join(", ") },
      { title: "state", of: state },
      { title: "last used", of: (each) => when(each.last_used) || "never" },
      { title: "made", of: (each) => [when(each.created), ` by ${each.created_by}`] },
      { title: "", of: (each) => (!isOver(each) && revocation(each)) || "" },
    ],
    next: (last) => ({ before: last.key_id }),
    more: "Older keys",
    empty: "No key yet. New key, or gapless keys create NAME --scope read:* makes one.",
  })));
}

function revocation(each) {
  return action("Revoke", {
    question: `Revoke key ${each.key_id} (${each.name})?`, text: "It counts no more, within 5 s at every gateway.", danger: true, yes: "Revoke it",
    done: (said) => (said.revoked ? "revoked" : "it was revoked before"),
  }, () => post(`${path("keys", each.key_id)}/revoke`));
}

const isOver = (each) => each.revoked || (each.expires && new Date(each.expires) < new Date());

function state(each) {
  if (each.revoked) return el("span", { class: "quiet" }, "revoked ", when(each.revoked));
  if (isOver(each)) return el("span", { class: "quiet" }, "expired ", when(each.expires));
  return el("span", { class: "good" }, "valid", each.expires ? [" until ", when(each.expires)] : "");
}

/** Show the secret until the dialog is closed; then it is in no element any more. */
async function showOnce(name, { key }) {
  const secret = el("code", { id: "secret", tabindex: "0" }, key);
  await ask(`Key of ${name}`, { text: el("div", {}, el("p", {}, "It is shown this once: keep it where secrets are."), el("p", {}, secret), copyButton("Copy", () => key)), yes: "I have it" });
  document.getElementById("dialog").replaceChildren();
}
