// Axes and lines of charts (pure).

const MINUTE = 60_000;
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
const MINUTES = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440];

/** The smallest of 1, 2, 5, 10, 20 … that is at least n. */
function round(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].find((each) => each * power >= n * (1 - 1e-9)) * power;
}

/** The numbers of an axis: from 0 to at least `most` by a round step. Ages have steps of a clock, counts whole ones. */
export function ticks(most, unit, wanted = 3) {
  const isRate = unit.endsWith("/s");
  const rough = most > 0 ? most / wanted : 1;
  let step = round(rough);
  if (unit === "s" && rough > 1) step = SECONDS.find((each) => each >= rough) ?? round(rough / 86400) * 86400;
  else if (unit !== "s" && !isRate) step = Math.max(1, step);
  const steps = Math.max(1, Math.ceil((most / step) * (1 - 1e-9)));
  return Array.from({ length: steps + 1 }, (_, i) => Number((i * step).toPrecision(9)));
}

/** Times of an axis between two (ms): round ones of the reader's clock, at most `wanted`. */
export function times(from, to, wanted = 6) {
  const step = MINUTE * (MINUTES.find((each) => (to - from) / (each * MINUTE) <= wanted) ?? 1440 * Math.ceil((to - from) / (1440 * MINUTE * wanted)));
  const zone = new Date(from).getTimezoneOffset() * MINUTE;
  const found = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) found.push(at);
  return found;
}

/** The path of a line through values; where one is null, the line has a gap. x of an index, y of a value. */
export function line(values, x, y) {
  let path = "";
  let isDrawn = false;
  values.forEach((value, i) => {
    if (value === null || value === undefined) return (isDrawn = false);
    const isAlone = !isDrawn && (values[i + 1] === null || values[i + 1] === undefined);
    path += `${isDrawn ? "L" : "M"}${x(i).toFixed(1)},${y(value).toFixed(1)}${isAlone ? "h.01" : ""}`;
    return (isDrawn = true);
  });
  return path;
}

/** The index of the moment that is nearest. */
export function nearest(moments, at) {
  let best = 0;
  for (let i = 1; i < moments.length; i++) if (Math.abs(moments[i] - at) < Math.abs(moments[best] - at)) best = i;
  return best;
}

/** The newest, the least and the most of values; null where there is none. */
export function extremes(values) {
  const known = values.filter((each) => each !== null && each !== undefined);
  if (!known.length) return null;
  return { now: known[known.length - 1], least: Math.min(...known), most: Math.max(...known) };
}

/** A field of series: of exactly this group and topic, or else the sum (of ages the oldest) of those that are of it. */
export function valuesOf(series, { group = null, topic = null }, field) {
  const has = series.filter((each) => each[field]);
  const exact = has.find((each) => each.group === group && each.topic === topic);
  if (exact) return exact[field];
  const of = has.filter((each) => each.group !== null && (group === null || each.group === group) && (topic === null || each.topic === topic));
  if (!of.length || (group === null && topic === null)) return [];
  const both = field.endsWith("_s") && !field.endsWith("_per_s") ? Math.max : (a, b) => a + b;
  return of[0][field].map((_, i) => of.map((each) => each[field][i]).filter((each) => each !== null).reduce((a, b) => (a === null ? b : both(a, b)), null));
}
