// What the looks before said, so that lag has a past: kept while the page is open.

import { name } from "./words.js";
import { svg } from "./dom.js";

const LOOKS = 300;
const past = new Map(); // "group/topic" => [{at: ms, lag, rate}]

/** Keep a look. */
export function remember(status) {
  const at = Date.parse(status.taken_at);
  const seen = new Set();
  for (const group of status.groups) {
    seen.add(name(group));
    const looks = past.get(name(group)) || [];
    if (looks.length && looks[looks.length - 1].at >= at) continue;
    looks.push({ at, lag: group.lag });
    past.set(name(group), looks.slice(-LOOKS));
  }
  for (const each of past.keys()) if (!seen.has(each)) past.delete(each);
}

/** The partitions that the page of an address needs in a look: those of its group, GROUP/TOPIC, or none. */
export function partitionsOf(hash) {
  try {
    const names = hash.match(/^#\/groups\/([^/?]+)\/([^/?]+)/).slice(1).map(decodeURIComponent);
    return names.join("").includes("/") ? "none" : names.join("/");
  } catch {
    return "none"; // another page, or an address that is none
  }
}

/** Add facts that one look cannot tell: events handled a second, how fast lag grows, when it is 0 (pure but for the past). */
export function withRates(status, before) {
  if (!before) return status;
  const seconds = (Date.parse(status.taken_at) - Date.parse(before.taken_at)) / 1000;
  if (!(seconds > 0)) return status;
  const then = new Map(before.groups.map((group) => [name(group), group.current_offset]));
  for (const group of status.groups) {
    if (!then.has(name(group))) continue;
    group.handled_per_s = Math.max(0, (group.current_offset - then.get(name(group))) / seconds);
    const looks = (past.get(name(group)) || []).filter((look) => look.at >= Date.parse(status.taken_at) - 10_000);
    const first = looks[0];
    if (!first || first.at >= Date.parse(status.taken_at)) continue;
    group.lag_per_s = ((group.lag - first.lag) * 1000) / (Date.parse(status.taken_at) - first.at);
    group.catch_up_s = group.lag_per_s < 0 ? group.lag / -group.lag_per_s : null;
  }
  status.totals.published_per_s = Math.max(0, (status.totals.events - before.totals.events) / seconds);
  status.totals.handled_per_s = status.groups.reduce((sum, group) => sum + (group.handled_per_s || 0), 0);
  return status;
}

export const looksOf = (of) => past.get(of) || [];

/** A line of lag over time, `wide` with an axis in words. */
export function plot(looks, { width = 120, height = 24 } = {}) {
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", preserveAspectRatio: "none" });
  if (looks.length < 2) return drawing;
  const most = Math.max(1, ...looks.map((look) => look.lag));
  const [first, last] = [looks[0].at, looks[looks.length - 1].at];
  const points = looks.map((look) => {
    const x = ((look.at - first) / Math.max(1, last - first)) * width;
    return `${x.toFixed(1)},${(height - 1 - (look.lag / most) * (height - 2)).toFixed(1)}`;
  });
  drawing.append(
    svg("title", {}, `lag, at most ${most}`),
    svg("polygon", { points: `0,${height} ${points.join(" ")} ${width},${height}`, class: "area" }),
    svg("polyline", { points: points.join(" "), class: "line" }),
  );
  return drawing;
}
