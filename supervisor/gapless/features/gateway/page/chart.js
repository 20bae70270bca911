// Charts: lines over time from the history that the database keeps, with axes, ranges, and the values of a moment.

import { keep, kept } from "./address.js";
import { get } from "./api.js";
import { el, show, svg } from "./dom.js";
import { past } from "./history.js";
import { extremes, line, nearest, ticks, times, valuesOf } from "./scales.js";
import { age, rate, short } from "./words.js";

const RANGES = [["1h", "1 h"], ["6h", "6 h"], ["24h", "24 h"], ["72h", "72 h"]];
const AGAIN_MS = 60_000;
const DAY_MS = 86_400_000;
const MARGIN = { left: 44, right: 8, top: 6, bottom: 18 };
const ROWS = 24; // of the table for a screen reader

let chosen = RANGES[0][0]; // by the reader, on any page

/** The range of the address, or the one chosen last. */
export function range() {
  const given = kept("range");
  return RANGES.some(([each]) => each === given) ? given : chosen;
}

/** Buttons of ranges, kept in the address; all charts of the page follow. */
export function rangeButtons(signal) {
  const group = el("div", { class: "ranges", role: "group", "aria-label": "range" });
  const draw = () => show(group, RANGES.map(([value, title]) =>
    el("button", { type: "button", "aria-pressed": String(value === range()), onclick: () => {
      chosen = value;
      keep({ range: value });
      dispatchEvent(new Event("range"));
    } }, title)));
  addEventListener("range", draw, { signal });
  draw();
  return group;
}

const OF_LOOKS = "The database has kept too little of this time: these are the looks since this page was opened.";
const KEPT_MIN = 3; // moments, to draw a line that says more than a dot

/**
 * Read history of the range, or of parameters.since, now, each minute, and when the range changes: use(found, note). null: the database has kept too little;
 * undefined: it could not be read, so the last one stays.
 */
export function follow(parameters, signal, use) {
  let isKept = true;
  const read = async () => {
    try {
      const found = await get("/v1/history", { since: range(), ...parameters }, signal);
      const known = (values) => (Array.isArray(values) ? values.filter((value) => value !== null).length : 0);
      isKept = found.series.some((each) => Object.values(each).some((values) => known(values) >= KEPT_MIN));
      use(isKept ? found : null, isKept ? "" : OF_LOOKS);
    } catch (error) {
      if (signal.aborted) return;
      isKept = error.status !== 404;
      use(isKept ? undefined : null, isKept ? `No history: ${error.message}` : OF_LOOKS);
    }
  };
  for (const each of ["range", "look"]) addEventListener(each, read, { signal });
  addEventListener("looked", () => isKept || use(null, OF_LOOKS), { signal });
  const timer = setInterval(read, AGAIN_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  read();
}

/**
 * A chart of history that keeps itself up to date. Lines ({of, title, unit}) of one unit share a drawing. Its method
 * live({of: value}) shows newer numbers than the database has kept.
 */
export function historyChart(query, lines, signal) {
  const units = [...new Set(lines.map((each) => each.unit))];
  const drawings = units.map((unit) => drawing(lines.filter((each) => each.unit === unit), unit, signal));
  const note = el("p", { class: "quiet" });
  const fields = [...new Set(lines.map((each) => each.of))];
  const of = query.group || query.topic ? query : { only: "database" };
  follow({ ...of, of: fields.join(",") }, signal, (found, said) => {
    note.textContent = said;
    if (found === undefined) return;
    const shown = found ?? past(query);
    const moments = momentsOf(shown);
    drawings.forEach((each) => each.use(moments, (field) => valuesOf(shown.series, query, field)));
  });
  const made = el("div", { class: "charts" }, rangeButtons(signal), el("div", { class: "drawings" }, drawings.map((each) => each.element)), note);
  return Object.assign(made, { live: (newest) => drawings.forEach((each) => each.live(newest)) });
}

/** The moment (ms) of each value. */
export function momentsOf({ from, step_s, series, moments }) {
  if (moments) return moments;
  const length = Math.max(0, ...series.flatMap((each) => Object.values(each).filter(Array.isArray).map((values) => values.length)));
  return Array.from({ length }, (_, i) => Date.parse(from) + i * step_s * 1000);
}

const written = (value, unit) => {
  if (value === null || value === undefined) return "–";
  if (unit === "s") return age(value);
  return unit.endsWith("/s") && value < 1000 ? rate(value) : short(value);
};

const moment = (at, span) =>
  new Date(at).toLocaleString([], { ...(span > DAY_MS && { weekday: "short" }), hour: "2-digit", minute: "2-digit" });

/** The number of times that an axis of so many pixels has room for. */
const wanted = (width, span) =>
  Math.max(1, Math.floor(width / (span > DAY_MS ? 90 : 70)), span > 2 * DAY_MS ? Math.min(3, Math.floor(width / 40)) : 0);

/** A time of an axis: days have no hour. */
const mark = (at, span) =>
  span > 2 * DAY_MS && new Date(at).getHours() === 0 ? new Date(at).toLocaleDateString([], { weekday: "short" }) : moment(at, span);

/** Lines of one unit over time. use(moments, valuesOf a field) shows them. */
function drawing(lines, unit, signal) {
  const legend = el("figcaption");
  const canvas = el("div", { class: "canvas", role: "img", tabindex: "0" });
  const said = el("output", { class: "unseen" });
  const numbers = el("div", { class: "unseen" });
  const element = el("figure", { class: "chart" }, legend, canvas, said, numbers);
  let moments = [];
  let values = lines.map(() => []);
  let live = {};
  let at = null; // the index of the moment under the pointer

  const tell = () => {
    const newest = (i) => live[lines[i].of] ?? extremes(values[i])?.now ?? null;
    show(legend, lines.map((each, i) => el("span", { class: `key line-${i}` }, `${each.title} `,
      el("b", {}, written(at === null ? newest(i) : values[i][at], unit)), unit === "s" ? "" : ` ${unit}`)),
    el("time", { class: "quiet" }, at === null ? "" : moment(moments[at], Infinity)));
  };
  const draw = () => {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    const words = lines.map((each, i) => [each.title, extremes(values[i])]).filter(([, found]) => found)
      .map(([title, found]) => `${title}: now ${written(found.now, unit)}, least ${written(found.least, unit)}, most ${written(found.most, unit)}`);
    canvas.setAttribute("aria-label", words.length ? `${words.join("; ")}${unit === "s" ? "" : ` ${unit}`}` : `${lines[0].title}: nothing to draw yet`);
    show(canvas, words.length ? picture(values, moments, unit, { width, height, at }) : el("p", { class: "empty" }, "nothing to draw yet"));
  };
  const point = (index, aloud) => {
    if (index === at || (index !== null && !moments.length)) return;
    at = index;
    draw();
    tell();
    if (aloud) said.textContent = at === null ? "" : legend.textContent;
  };
  canvas.addEventListener("pointermove", (event) => {
    const left = canvas.getBoundingClientRect().left + MARGIN.left;
    const share = (event.clientX - left) / Math.max(1, canvas.clientWidth - MARGIN.left - MARGIN.right);
    const [first, last] = [moments[0], moments[moments.length - 1]];
    point(moments.length ? nearest(moments, first + share * (last - first)) : null);
  });
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("focusout", () => point(null));
  canvas.addEventListener("keydown", (event) => {
    const last = moments.length - 1;
    const steps = { ArrowLeft: (at ?? last + 1) - 1, ArrowRight: (at ?? last - 1) + 1, Home: 0, End: last };
    if (!(event.key in steps) || last < 0) return;
    event.preventDefault();
    point(Math.max(0, Math.min(last, steps[event.key])), true);
  });
  const observer = new ResizeObserver(draw);
  observer.observe(canvas);
  signal.addEventListener("abort", () => observer.disconnect());
  tell();
  const use = (newMoments, of) => {
    const on = at === null ? null : moments[at];
    moments = newMoments;
    values = lines.map((each) => of(each.of));
    at = on === null || !moments.length ? null : nearest(moments, on);
    draw();
    tell();
    show(numbers, table(lines, unit, moments, values));
  };
  return { element, use, live: (newest) => ((live = newest), tell()) };
}

/** The drawing itself, at its width in pixels. */
function picture(values, moments, unit, { width, height, at }) {
  const steps = ticks(Math.max(0, ...values.map((each) => extremes(each)?.most ?? 0)), unit);
  const most = steps[steps.length - 1];
  const [first, last] = [moments[0], moments[moments.length - 1]];
  const xOf = (when) => MARGIN.left + ((when - first) / Math.max(1, last - first)) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => height - MARGIN.bottom - (value / most) * (height - MARGIN.top - MARGIN.bottom);
  const x = (i) => xOf(moments[i]);
  const marks = times(first, last, wanted(width - MARGIN.left, last - first));
  const known = (i) => at !== null && values[i][at] !== null && values[i][at] !== undefined;
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` },
    steps.map((each) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(each), y2: y(each) }),
      svg("text", { x: MARGIN.left - 6, y: y(each) + 3.5, "text-anchor": "end" }, unit === "s" ? age(each) : short(each))]),
    marks.map((each) => svg("text", { x: xOf(each), y: height - 4, "text-anchor": xOf(each) > width - 30 ? "end" : "middle" }, mark(each, last - first))),
    at !== null && svg("line", { class: "pointer", x1: x(at), x2: x(at), y1: MARGIN.top, y2: height - MARGIN.bottom }),
    values.map((each, i) => svg("path", { class: `line line-${i}`, d: line(each, x, y) })),
    values.map((each, i) => known(i) && svg("circle", { class: `dot line-${i}`, cx: x(at), cy: y(each[at]), r: 3 })));
}

/** The same as a table for a screen reader: at most some moments, evenly apart. */
function table(lines, unit, moments, values) {
  const every = Math.ceil(moments.length / ROWS) || 1;
  const rows = moments.map((at, i) => [at, i]).filter(([, i]) => (moments.length - 1 - i) % every === 0);
  return el("table", {},
    el("caption", {}, lines.map((each) => each.title).join(", ")),
    el("tbody", {}, rows.map(([at, i]) => el("tr", {},
      el("th", { scope: "row" }, moment(at, Infinity)), values.map((each) => el("td", {}, written(each[i], unit)))))));
}

const SPARK = { width: 80, height: 18 };

/** A small line without axes; its numbers are its title. */
export function sparkline(values, title) {
  const found = extremes(values);
  const words = found ? `${title}: now ${short(found.now)}, most ${short(found.most)}` : `${title}: nothing kept yet`;
  const top = Math.max(1, found?.most ?? 0);
  const x = (i) => (i / Math.max(1, values.length - 1)) * SPARK.width;
  const y = (value) => SPARK.height - 1.5 - (value / top) * (SPARK.height - 3);
  return svg("svg", { class: "spark", viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, ...SPARK, role: "img", "aria-label": words },
    svg("title", {}, words), svg("path", { class: "line line-0", d: line(values, x, y) }));
}
