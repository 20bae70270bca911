// Numbers, ages and verdicts in words (pure).

const number = new Intl.NumberFormat("en");

export const count = (n) => (n === null || n === undefined ? "?" : number.format(n));

export const rate = (n) => (n === null || n === undefined ? "?" : n >= 100 || n === 0 ? count(Math.round(n)) : n.toFixed(1));

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

/** Everything that needs a person, the worst first: [{level: "bad" | "warn", text, href}]. */
export function troubles(status) {
  const found = [];
  const say = (level, text, href) => found.push({ level, text, href });
  const { sequencer, totals } = status;
  if (sequencer.state === "nobody" && (totals.pending || 0) > 0)
    say("bad", `${plural(totals.pending, "event")} without an offset, and no supervisor gives any: start gapless run`);
  if (sequencer.needs_rebase) say("bad", "the log was restored or failed over: the next sequencer re-bases it");
  for (const group of status.groups) {
    const href = `#/groups/${encodeURIComponent(group.group)}/${encodeURIComponent(group.topic)}`;
    if (group.stopped) say("bad", `${name(group)}: ${plural(group.stopped, "partition")} stopped by an error`, href);
    if (group.unserved && group.lag) say("bad", `${name(group)}: no supervisor works on ${plural(group.unserved, "partition")}`, href);
    if (group.paused) say("warn", `${name(group)}: ${plural(group.paused, "partition")} paused`, href);
    if (group.dead_letters) say("warn", `${name(group)}: ${plural(group.dead_letters, "dead letter")}`, `#/dead?group=${encodeURIComponent(group.group)}`);
    if (group.lapsed) say("warn", `${name(group)}: ${plural(group.lapsed, "reservation")} lapsed`, href);
  }
  for (const each of status.members)
    if (["silent", "gone", "revoked"].includes(each.state)) say("warn", `supervisor ${each.member} is ${each.state}`);
  for (const each of status.foreign_locks)
    say("bad", `session ${each.pid} of role ${each.role} holds ${each.holds}, which only gapless may`);
  for (const each of status.unrouted)
    say("warn", `${plural(each.events, "event")} of topic id ${each.topic_id || "(further ids)"} that nobody made: gapless topics adopt`);
  for (const each of status.captures) say("warn", `${each.table}: ${each.problem}; ${each.remedy}`);
  for (const each of status.held) say("warn", `retention: ${each}`, "#/retention");
  for (const each of status.later.stopped) say("bad", each, "#/later");
  if (status.later.late_s > 60) say("warn", `events for later are ${age(status.later.late_s)} late`, "#/later");
  return found.sort((a, b) => (a.level === b.level ? 0 : a.level === "bad" ? -1 : 1));
}
