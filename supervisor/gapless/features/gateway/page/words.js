// Numbers, ages and verdicts in words (pure).

const number = new Intl.NumberFormat("en");

export const count = (n) => (n === null || n === undefined ? "?" : number.format(n));

export const rate = (n) => (n === null || n === undefined ? "?" : n >= 100 || n === 0 ? count(Math.round(n)) : n.toFixed(1));

/** Seconds as people say them: 0.4 s, 12 s, 3 min, 5 h, 2 d. */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return "?";
  if (seconds < 1) return seconds === 0 ? "0 s" : "<1 s";
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function bytes(n) {
  if (n === null || n === undefined) return "?";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return `${unit === "B" ? n : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
}

export const plural = (n, word, many = `${word}s`) => `${count(n)} ${n === 1 ? word : many}`;

/** Compare groups: who needs somebody first comes first, as in the console. */
export function byNeed(a, b) {
  return (
    b.stopped - a.stopped || b.lag - a.lag || b.unserved - a.unserved || b.dead_letters - a.dead_letters ||
    name(a).localeCompare(name(b))
  );
}

export const name = (group) => `${group.group}/${group.topic}`;

/** When the lag is 0 if things go on as now, or why nobody can say. */
export function catchUp(group) {
  if (group.stopped) return "stopped";
  if (group.mode !== "queue" && group.members === 0) return "nobody";
  if (group.paused === group.partitions) return "paused";
  if (group.lag === 0) return "now";
  if (group.catch_up_s !== null && group.catch_up_s !== undefined) return age(group.catch_up_s);
  if (group.lag_per_s === null || group.lag_per_s === undefined) return "?";
  return group.lag_per_s > 0 ? "grows" : "stands";
}

/** Everything that needs somebody, the worst first: [{level: "bad" | "warn", text, href}]. */
export function troubles(status) {
  const found = [];
  const say = (level, text, href) => found.push({ level, text, href });
  const { sequencer, totals } = status;
  if (sequencer.state === "nobody" && (totals.pending || 0) > 0)
    say("bad", `${plural(totals.pending, "event")} without an offset, and nobody sequences: start gapless run`);
  if (sequencer.needs_rebase) say("bad", "the log was restored or failed over: the next sequencer re-bases it");
  for (const group of status.groups) {
    const href = `#/groups/${encodeURIComponent(group.group)}/${encodeURIComponent(group.topic)}`;
    if (group.stopped) say("bad", `${name(group)}: ${plural(group.stopped, "partition")} stopped by an error`, href);
    if (group.unserved && group.lag) say("bad", `${name(group)}: nobody works on ${plural(group.unserved, "partition")}`, href);
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
