// Calls of the gateway. The browser keeps the key in a cookie that no script can read, and sends it by itself.

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** A path of the API: every part is encoded, so that a name cannot become another path. */
export const path = (...parts) => "/v1/" + parts.map((part) => encodeURIComponent(part)).join("/");

const query = (parameters) => {
  const given = Object.entries(parameters || {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? "?" + new URLSearchParams(given) : "";
};

// An answer has elements drawn anew, and a click is lost when its element goes between press and release: it waits so long.
let [released, release] = [null, () => {}];
addEventListener("pointerdown", ({ button }) => {
  if (button) return;
  release();
  released = new Promise((done) => (release = done));
});
for (const end of ["pointerup", "pointercancel", "blur"]) addEventListener(end, () => setTimeout(release)); // after the click
addEventListener("pointermove", ({ buttons }) => buttons || release()); // no release came: a menu of the browser had it

/** Return an answer and its text; of a gateway that is away, each browser says something else. */
async function answered(where, init) {
  try {
    const answer = await fetch(where, init);
    return [answer, await answer.text()];
  } catch (error) {
    throw init.signal?.aborted ? error : new Error("the gateway does not answer");
  }
}

/** Return the text of an answer. */
async function call(method, where, parameters, body, signal) {
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  const init = { method, headers, signal, body: typeof body === "string" ? body : JSON.stringify(body) };
  const [answer, text] = await answered(where + query(parameters), init);
  await released;
  if (answer.ok) return text;
  const problem = await new Response(text).json().catch(() => ({}));
  throw new Refused(answer.status, problem.detail || problem.title || `${answer.status} ${answer.statusText}`);
}

const parsed = (text) => (text ? JSON.parse(text) : null); // null: 204

/** Read a document; null when there is nothing. */
export const get = async (where, parameters, signal) => parsed(await call("GET", where, parameters, undefined, signal));

/** The same, of events: numbers in their payloads stay as they were written. */
export async function getEvents(where, parameters, signal) {
  return exact(await call("GET", where, parameters, undefined, signal));
}

/** Parse JSON, but leave a number as it was written where JavaScript has no such number: 2^53 + 1, 1.50 (pure). */
export function exact(text) {
  const written = (_, value, context) =>
    typeof value === "number" && JSON.rawJSON && context && context.source !== String(value) ? JSON.rawJSON(context.source) : value;
  try {
    return JSON.parse(text, written);
  } catch (error) {
    if (error instanceof RangeError) return JSON.parse(text); // nested too deep to be looked through
    throw error;
  }
}

/** Change something. body: a document, or its JSON text, which is sent as it is written. */
export const post = async (where, body = {}, parameters) => parsed(await call("POST", where, parameters, body));

let known = { caller: null, scopes: [], asks_keys: false, operates: true }; // the gateway refuses in any case

/** The caller of this page and its rights, as they were last read. */
export const session = () => known;

/** Whether buttons of changes have a use. */
export const mayOperate = () => known.operates && (!known.asks_keys || known.scopes.includes("operate"));

/** Read the session again, or take an answer that has it; the event `session` tells of a change. */
export async function readSession(answer = get("/v1/session")) {
  const found = await answer;
  const isNew = JSON.stringify(found) !== JSON.stringify(known);
  known = found;
  if (isNew) dispatchEvent(new Event("session"));
}

/** Have the browser keep a key or a token. */
export const enter = (key) => readSession(post("/v1/session", { key }));

/** Have it forget the key. */
export const leave = () => call("DELETE", "/v1/session");

/** Read a stream of server-sent events until the signal ends it: of EventSource, no refusal says its reason. Resumes where it was. */
export async function stream(where, parameters, onEvent, onState, signal) {
  let last = "";
  while (!signal.aborted) {
    try {
      const headers = { accept: "text/event-stream" };
      if (last) headers["last-event-id"] = last;
      const answer = await fetch(where + query(parameters), { headers, signal });
      if (!answer.ok) {
        const problem = await answer.json().catch(() => ({}));
        throw new Refused(answer.status, problem.detail || answer.statusText);
      }
      onState("live");
      for await (const event of events(answer.body)) {
        last = event.id || last;
        if (event.data) onEvent(event);
      }
      onState("the stream ended: connecting again");
    } catch (error) {
      if (signal.aborted) return;
      onState(error instanceof Refused ? error.message : "the gateway does not answer: connecting again");
      if (error instanceof Refused && error.status < 500 && error.status !== 429) return;
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value.replaceAll("\r\n", "\n");
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) yield parse(text.slice(0, end));
  }
}

/** One server-sent event: its fields, several lines of data as one text (pure). */
export function parse(block) {
  const found = { id: "", event: "message", data: "" };
  for (const line of block.split("\n")) {
    if (line.startsWith(":")) continue;
    const at = line.indexOf(":");
    const field = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (field === "data") found.data += (found.data ? "\n" : "") + value;
    else if (field in found) found[field] = value;
  }
  return found;
}

await readSession().catch(() => {}); // before a page is drawn; account.js reads it again
