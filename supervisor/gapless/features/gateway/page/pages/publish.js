// A test event, or one that is published again: asked for in a dialog, checked before it is sent, and its place told as a link.

import { address } from "../address.js";
import { exact, post, path, session } from "../api.js";
import { ask } from "../ask.js";
import { el, show } from "../dom.js";
import { written } from "../payload.js";
import { plural } from "../words.js";

const drafts = new Map(); // by topic, or by the place of an event: the newest try, to be tried again

/** Whether a scope lets its bearer publish to a topic; a * at its end stands for any end. */
function allows(scope, topic) {
  const [, name] = /^publish:(.*)$/s.exec(scope) || [];
  return name !== undefined && (name.endsWith("*") ? topic.startsWith(name.slice(0, -1)) : name === topic);
}

const mayPublish = (topic) => !session().asks_keys || session().scopes.some((scope) => allows(scope, topic));

function json(text) {
  try {
    exact(text);
    return "";
  } catch (error) {
    return `not JSON: ${error.message}`;
  }
}

const headers = (text) => (text.trim() === "" ? "" : json(text) || (/^\s*\{/.test(text) ? "" : "headers are an object"));

/** Let the open dialog say what is wrong with a field, and stay open. */
function check(name, complaint) {
  const field = document.querySelector(`#dialog [name=${name}]`);
  const look = () => field.setCustomValidity(complaint(field.value));
  field.addEventListener("input", look);
  look();
}

/** A button that publishes an event; result: an element for its place, or the reason of a refusal. */
export function publishing(topic, result) {
  if (!mayPublish(topic)) return null;
  return button("Publish an event …", `Publish an event to ${topic}?`, [], topic, { topic, payload: "{}" }, result);
}

/** A button that publishes an event once more, to its topic or another one; null where its payload was cut, or it was for one group. */
export function publishingAgain(topic, event, result) {
  const may = !session().asks_keys || session().scopes.some((scope) => scope.startsWith("publish:"));
  if (!may || event.payload_begins !== undefined || Object.keys(event.headers || {}).some((name) => name.startsWith("gapless-"))) return null;
  const draft = { topic, payload: written(event.payload, 2), key: event.key, event_type: event.event_type, headers: event.headers ? written(event.headers) : "" };
  const place = `${topic}/${event.partition}@${event.offset}`;
  return button("Publish again …", `Publish ${place} again?`, [{ name: "topic", title: "topic", required: true }], place, draft, result);
}

function button(title, question, more, name, first, result) {
  return el("button", { type: "button", onclick: async () => {
    const draft = drafts.get(name) || first;
    const answer = ask(question, {
      text: "Every group of the topic handles it, as any other event.",
      fields: [
        ...more.map((field) => ({ ...field, value: draft[field.name] })),
        { name: "payload", title: "payload: JSON", rows: 8, value: draft.payload },
        { name: "key", title: "key", value: draft.key },
        { name: "event_type", title: "type", value: draft.event_type },
        { name: "headers", title: "headers: a JSON object, or nothing", value: draft.headers },
      ],
      yes: "Publish",
    });
    check("payload", json);
    check("headers", headers);
    const given = await answer;
    if (given === null) return;
    drafts.set(name, { ...first, ...given });
    try {
      show(result, el("p", {}, await publish(given.topic || first.topic, given)));
    } catch (error) {
      show(result, el("p", { class: "bad" }, error.message));
    }
  } }, title);
}

async function publish(topic, { payload, key, event_type: type, headers: more }) {
  const parts = { payload, key: key && JSON.stringify(key), event_type: type && JSON.stringify(type), headers: more.trim() };
  const written = Object.entries(parts).filter(([, text]) => text); // as text: JavaScript would write other numbers
  written.forEach(([, text]) => JSON.parse(text));
  const event = `{${written.map(([name, text]) => `"${name}": ${text}`).join(", ")}}`;
  const done = await post(`${path("topics", topic)}/events`, event, { wait: "offset" });
  const places = (done.places || []).map((each) => el("a", { href: address(["topics", topic, each.partition, each.first_offset]) }, `${topic}/${each.partition}@${each.first_offset}`));
  if (places.length) return ["Published at ", places];
  return ["Published, without an offset yet, in ", el("a", { href: address(["topics", topic], { transaction_id: done.transaction_id }) }, `transaction ${done.transaction_id}`), ` (${plural(done.events, "event")})`];
}
