// Schemas of payloads: versions, texts, differences, and a check of a payload.

import { address } from "../address.js";
import { get, path, post } from "../api.js";
import { tell } from "../ask.js";
import { el, facts, section, show, table } from "../dom.js";
import { reading, when } from "../reading.js";

export default { name: "schemas", title: "Schemas", key: "s", menu: "more", pages: { 0: schemas, 2: schema } };

const href = (each) => address(["schemas", each.topic, each.event_type]);
const typed = (type) => (type === "*" ? {} : { event_type: type });

function schemas(page) {
  reading(page, "Schemas", [["Newest versions", "/v1/schemas", (all) => table([
    { title: "topic", of: (each) => each.topic },
    { title: "type", of: (each) => el("a", { href: href(each) }, each.event_type === "*" ? "* (all others)" : each.event_type) },
    { title: "version", kind: "number", of: (each) => each.version },
    { title: "compatibility", of: (each) => each.compatibility },
    { title: "set", of: (each) => [when(each.set_at), ` by ${each.set_by}`] },
  ], all.filter((each) => each.is_newest), { href, empty: "No topic has a schema: gapless schemas add TOPIC FILE." }), { brief: true }]]);
}

function schema(page) {
  const { main, parts: [topic, type], signal } = page;
  const versions = el("div");
  const text = el("div");
  main.append(el("h1", {}, `${topic}/${type}`), versions, section("Check a payload", check(topic, type)), text);
  const load = async () => {
    try {
      const all = (await get("/v1/schemas", { topic, brief: true }, signal)).filter((each) => each.event_type === type).sort((a, b) => b.version - a.version);
      if (!all.length) return show(versions, el("p", { class: "empty" }, `It has no schema: gapless schemas add ${topic} FILE --type ${type}.`));
      const of = (version) => get(path("topics", topic, "schema"), { ...typed(type), version }, signal);
      const [newest, before] = await Promise.all(all.slice(0, 2).map((each) => of(each.version)));
      show(versions, state(all));
      show(text, texts(newest, before, all, of));
    } catch (error) {
      if (!signal.aborted) show(versions, el("p", { class: "bad" }, error.message));
    }
  };
  load();
}

function state(all) {
  return [
    facts([
      ["versions", all.map((each) => each.version).join(", ")],
      ["checked by", `version ${all[0].version}: a publish of another payload is refused in Python, by gapless publish and by the gateway, not by a plain INSERT`],
      ["next version", `${all[0].compatibility === "none" ? "need not be compatible" : `has to be compatible: ${all[0].compatibility}`}`],
      ["set", [when(all[0].set_at), ` by ${all[0].set_by}`]],
    ]),
  ];
}

function texts(newest, before, all, of) {
  const shown = el("div");
  const choice = (name, chosen) => el("select", { name }, all.map((each) => el("option", { value: each.version, selected: each.version === chosen }, each.version)));
  const form = el("form", {}, el("label", {}, "from version", choice("from", before?.version)), el("label", {}, "to version", choice("to", newest.version)));
  form.addEventListener("change", async () => {
    const given = new FormData(form);
    const [from, to] = await Promise.all(["from", "to"].map((name) => of(given.get(name)))).catch((error) => (tell(error.message, true), []));
    if (to) show(shown, difference(from, to));
  });
  if (before) show(shown, difference(before, newest));
  return [before && section("Differences", form, shown), section(`Text of version ${newest.version}`, el("pre", { tabindex: "0" }, pretty(newest.schema)))];
}

function difference(from, to) {
  const lines = diff(pretty(from.schema).split("\n"), pretty(to.schema).split("\n"));
  if (lines.every(([sign]) => sign === " ")) return el("p", { class: "empty" }, "Both texts are equal.");
  const classes = { "+": "good", "-": "bad" };
  return el("pre", { tabindex: "0" }, lines.map(([sign, line]) => el("span", { class: classes[sign] }, `${sign} ${line}\n`)));
}

const LINES_MAX = 2000;

/** Lines of two texts: [" ", line] of both, ["-", line] of the first, ["+", line] of the second (pure). */
export function diff(a, b) {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const both = (lines) => lines.map((line) => [" ", line]);
  return [...both(a.slice(0, head)), ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)), ...both(a.slice(a.length - tail))];
}

function middle(a, b) {
  if (a.length > LINES_MAX || b.length > LINES_MAX) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1)); // of the rest of both
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const lines = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && a[i] === b[j]) j++, lines.push([" ", a[i++]]);
    else if (j >= b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) lines.push(["-", a[i++]]);
    else lines.push(["+", b[j++]]);
  }
  return lines;
}

function check(topic, type) {
  const payload = el("textarea", { name: "payload", rows: 6, spellcheck: "false", required: true, "aria-label": "payload (JSON)" });
  const version = el("input", { name: "version", type: "number", min: 1, placeholder: "newest" });
  const result = el("p", { "aria-live": "polite" });
  const form = el("form", {}, payload, el("label", {}, "version", version), el("button", { class: "main" }, "Check"), result);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const chosen = version.value ? { version: Number(version.value) } : {};
    try {
      const found = await post(path("topics", topic, "schema", "test"), { payload: payload.value, ...typed(type), ...chosen });
      const refused = found.is_newest ? "; a publisher is refused" : "";
      result.className = found.fits ? "good" : "bad";
      show(result, found.fits ? `It fits version ${found.version}.` : `It does not fit version ${found.version}${refused}: ${found.pointer || "the payload"}: ${found.reason}`);
    } catch (error) {
      result.className = "bad";
      show(result, error.message);
    }
  });
  return form;
}

/** JSON text on several lines; a text that JavaScript cannot parse as it is. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
