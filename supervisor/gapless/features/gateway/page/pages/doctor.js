// Findings of the doctor with their remedies; an examination is made on demand.

import { get, post } from "../api.js";
import { tell } from "../ask.js";
import { el, show, table } from "../dom.js";
import { when } from "../reading.js";
import { age, plural } from "../words.js";

export default { name: "doctor", title: "Doctor", key: "x", menu: "more", pages: { 0: doctor } };

const ORDER = ["FAIL", "warning", "ok"];
const LEVELS = { FAIL: "bad", warning: "warn", ok: "good" };

function doctor({ main, signal }) {
  const said = el("output");
  const body = el("div");
  const button = el("button", { type: "button", class: "main", onclick: () => load(post("/v1/doctor")) }, "Examine now");
  const load = async (answer) => {
    button.ariaDisabled = "true";
    try {
      const report = await answer;
      if (signal.aborted) return;
      show(said, report.age_s !== null && summary(report));
      show(body, report.age_s !== null ? findings(report) : el("p", { class: "empty" }, "No examination yet. It takes a second or two and changes nothing; gapless doctor does the same."));
    } catch (error) {
      if (signal.aborted) return;
      button.hidden = error.status === 403;
      if (body.firstChild) tell(error.message, true);
      else show(body, el("p", { class: "bad" }, error.message));
    } finally {
      button.ariaDisabled = null;
    }
  };
  main.append(el("h1", {}, "Doctor"), el("div", { class: "buttons" }, button), said, body);
  load(get("/v1/doctor", {}, signal));
}

/** The number of findings of each level. */
function summary({ findings: all }) {
  const counts = ORDER.map((level) => [level, all.filter((each) => each.level === level).length]).filter(([, n]) => n);
  return `${plural(all.length, "finding")}: ${counts.map(([level, n]) => `${n} ${level}`).join(", ")}`;
}

function findings({ age_s: seconds, took_s: took, findings: all }) {
  const at = new Date(Date.now() - seconds * 1000).toISOString();
  const sorted = [...all].sort((a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level));
  return [
    el("p", { class: "quiet" }, "examined ", when(at), `, ${age(seconds)} ago, in ${age(took)}`),
    table(COLUMNS, sorted.filter((each) => each.level !== "ok"), { empty: "Nothing is wrong." }),
    el("details", {}, el("summary", {}, "Checks that found nothing wrong"), table(COLUMNS.slice(0, 3), sorted.filter((each) => each.level === "ok"))),
  ];
}

const COLUMNS = [
  { title: "level", of: (each) => el("span", { class: LEVELS[each.level] }, each.level) },
  { title: "check", of: (each) => each.name },
  { title: "finding", of: (each) => each.text },
  { title: "remedy", of: (each) => each.remedy },
];
