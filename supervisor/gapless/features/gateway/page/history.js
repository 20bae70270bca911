// What the looks before said, so that lag has a past: kept while the page is open.

import { name } from "./words.js";

const LOOKS = 300;
export const LATE_MS = 60_000; // an answer is at most so much older than one that came before it
const kept = new Map(); // "group/topic", or "" for the whole database => {group, topic, looks: [{at, lag, …}]}
let newest = 0; // the moment (ms) of the last look
const RATES_MS = 10_000; // a slow group handles nothing between most looks
const FIELDS = ["current_offset", "finished_ahead", "lag", "lag_s", "handled_per_s", "published_per_s", "dead_letters", "members"];

/** Keep a look, with its rates. */
export function remember(status) {
  const at = Date.parse(status.taken_at);
  if (!(at > newest) && !(newest - at > LATE_MS)) return;
  if (at < newest) kept.clear(); // the clock of the database was set back, or it is another server's
  newest = at;
  const all = [...status.groups.map((group) => [name(group), group]), ["", { ...status.totals, members: status.members.length }]];
  for (const [of, found] of all) {
    if (!kept.has(of)) kept.set(of, { group: found.group ?? null, topic: found.topic ?? null, looks: [] });
    const { looks } = kept.get(of);
    looks.push({ at, ...Object.fromEntries(FIELDS.map((field) => [field, found[field] ?? null])) });
    if (looks.length > LOOKS) looks.shift();
  }
  for (const [of, { looks }] of kept) if (looks[looks.length - 1].at < at) kept.delete(of);
}

/** The looks at a group, or at the whole database, in the form of /v1/history, with the moment of each. */
export function past({ group, topic }) {
  const found = kept.get(group ? name({ group, topic }) : "");
  if (!found) return { moments: [], series: [] };
  const fields = FIELDS.map((field) => [field, found.looks.map((look) => look[field])]);
  return { moments: found.looks.map((look) => look.at), series: [{ group: found.group, topic: found.topic, ...Object.fromEntries(fields) }] };
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

/** Events that were handled: of a queue also those above its floor, which one long job holds. */
const done = (of) => of.current_offset + (of.finished_ahead || 0);

/** Add facts that one look cannot tell: events handled a second, how fast lag grows, when it is 0 (pure but for the looks before). */
export function withRates(status, before) {
  if (!before) return status;
  const seconds = (Date.parse(status.taken_at) - Date.parse(before.taken_at)) / 1000;
  if (!(seconds > 0)) return status;
  const [now, last] = [status, before].map(({ taken_at }) => Date.parse(taken_at));
  for (const group of status.groups) {
    const first = looksOf(name(group)).find((look) => look.at >= Math.min(now - RATES_MS, last) && look.at < now);
    if (!first) continue;
    group.handled_per_s = (Math.max(0, done(group) - done(first)) * 1000) / (now - first.at);
    group.lag_per_s = ((group.lag - first.lag) * 1000) / (now - first.at);
    group.catch_up_s = group.lag_per_s < 0 ? group.lag / -group.lag_per_s : null;
  }
  status.totals.published_per_s = Math.max(0, (status.totals.events - before.totals.events) / seconds);
  status.totals.handled_per_s = status.groups.reduce((sum, group) => sum + (group.handled_per_s || 0), 0);
  return status;
}

export const looksOf = (of) => kept.get(of)?.looks || [];
