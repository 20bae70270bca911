// Numbers, ages and verdicts in words (pure).

const number = new Intl.NumberFormat("en");

export const count = (n) => (n === null || n === undefined ? "?" : number.format(n));

export const rate = (n) => (n === null || n === undefined ? "?" : n >= 100 || n === 0 ? count(Math.round(n)) : n < 0.1 ? String(Number(n.toPrecision(1))) : n.toFixed(1));

/** A number for a narrow place: 950, 1.2k, 34k, 5.6M. */
export function short(n) {
  if (n === null || n === undefined) return "?";
  for (const [size, sign] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (n >= size * 0.9995) return `${(n / size).toFixed(n < 9.95 * size ? 1 : 0).replace(/\.0$/, "")}${sign}`;
  return String(Number(n < 1 ? n.toPrecision(2) : n.toFixed(1)));
}

// An age below so many seconds is written in this unit with so many digits, as in status/words.py.
const AGES = [
  [0.0005, 1, 0, "s"], [0.9995, 0.001, 0, "ms"], [9.95, 1, 1, "s"], [99.5, 1, 0, "s"],
  [99.5 * 60, 60, 0, "m"], [48 * 3600, 3600, 1, "h"], [99.5 * 86400, 86400, 1, "d"], [Infinity, 86400, 0, "d"],
];

/** A duration as in the console: 350ms, 2.1s, 45s, 12m, 3.2h, 5.1d. */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return "?";
  const [, size, digits, unit] = AGES.find(([below]) => seconds < below);
  return `${(seconds / size).toFixed(digits)}${unit}`;
}

export function bytes(n) {
  if (n === null || n === undefined) return "?";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return `${unit === "B" ? n : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
}

export const plural = (n, word, many = `${word}s`) => `${count(n)} ${n === 1 ? word : many}`;

const CURRENT_S = 1; // an event that has waited for less is in hand, not behind

/** Compare groups as the console does: stopped ones, then the most behind, other trouble, dead letters. */
export function byNeed(a, b) {
  const behind = (group) => (group.lag_s >= CURRENT_S ? group.lag : 0);
  const isTroubled = (group) => group.stopped > 0 || group.unserved > 0;
  return (
    !!b.stopped - !!a.stopped || behind(b) - behind(a) || isTroubled(b) - isTroubled(a) ||
    b.dead_letters - a.dead_letters || name(a).localeCompare(name(b))
  );
}

export const name = (group) => `${group.group}/${group.topic}`;

/** The state of a group: {state, part, level}; part says how many of its partitions, if not all. */
export function stateOf(group) {
  const part = (n) => (n < group.partitions && group.mode !== "queue" ? `${n} of ${group.partitions}` : "");
  if (group.stopped) return { state: "broken", part: part(group.stopped), level: "bad" };
  if (group.paused) return { state: "paused", part: part(group.paused), level: "warn" };
  if (group.unserved) return { state: "nobody", part: part(group.unserved), level: group.lag ? "bad" : "warn" };
  if (group.lag_s >= CURRENT_S) return { state: "behind", part: "", level: "warn" };
  if (group.lag || group.in_hand || group.handled_per_s) return { state: "running", part: "", level: "good" };
  return { state: "idle", part: "", level: "quiet" };
}

/** The time until the lag is 0, at this rate, or why it does not get there: in the console's words. */
export function catchUp(group) {
  if (group.paused === group.partitions) return "paused";
  if (group.lag === 0) return "–";
  if (group.unserved === group.partitions) return "nobody";
  if (group.stopped && !group.catch_up_s) return "stopped";
  if (group.catch_up_s) return age(group.catch_up_s);
  if (group.lag_s < CURRENT_S) return "<1s";
  return group.lag_per_s > 0 ? "grows" : group.lag_per_s === 0 ? "stands" : "?";
}
