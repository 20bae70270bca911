// A group on a topic: lag over time, owners, reasons of a standstill; pause, resume, seek.

import { get, path, post } from "../api.js";
import { action, tell } from "../ask.js";
import { el, facts, section, show, table } from "../dom.js";
import { looksOf, plot } from "../history.js";
import { age, catchUp, count, name, rate } from "../words.js";

export default { name: "groups", title: "", pages: { 2: group } };

function group({ main, parts: [groupName, topic] }) {
  const live = el("div");
  main.append(el("h1", {}, `${groupName}/${topic}`), buttons(groupName, topic), live);
  return (status) => {
    const found = status.groups.find((each) => each.group === groupName && each.topic === topic);
    if (!found) return show(live, el("p", { class: "empty" }, "There is no such group."));
    const rows = status.partitions.filter((each) => each.group === groupName && each.topic === topic);
    const looks = looksOf(name(found));
    const chart = plot(looks, { width: 600, height: 100 });
    chart.classList.add("large");
    const seconds = looks.length > 1 ? (looks[looks.length - 1].at - looks[0].at) / 1000 : 0;
    show(live,
      facts([
        ["lag", `${count(found.lag)}${found.lag ? ` (${age(found.lag_s)})` : ""}`],
        ["ev/s", rate(found.handled_per_s)],
        ["catch up", catchUp(found)],
        ...(found.mode === "queue" ? [["queue", `${count(found.open)} open, ${count(found.in_hand)} in hand, ${count(found.in_work)} at work, ${count(found.lapsed)} lapsed, ${count(found.workers)} workers`]] : []),
        ["set aside", el("a", { href: `#/dead?group=${encodeURIComponent(groupName)}&topic=${encodeURIComponent(topic)}` }, `${count(found.dead_letters)} dead, ${count(found.waiting)} waiting, ${count(found.parked)} parked`)],
      ]),
      section(`Lag over the last ${age(seconds)}`, chart),
      section("Partitions", partitions(rows)));
  };
}

function partitions(rows) {
  const columns = [
    { title: "partition", kind: "number", of: (row) => row.partition },
    { title: "member", of: (row) => row.member || "nobody" },
    { title: "epoch", kind: "number", hide: true, of: (row) => row.epoch },
    { title: "current offset", kind: "number", hide: true, of: (row) => count(row.current_offset) },
    { title: "log end offset", kind: "number", hide: true, of: (row) => count(row.log_end_offset) },
    { title: "lag", kind: "number", of: (row) => count(row.lag) },
    { title: "behind", kind: "number", of: (row) => (row.lag ? age(row.lag_s) : "–") },
    { title: "dead", kind: "number", of: (row) => count(row.dead_letters) },
    { title: "state", of: (row) => el("span", { class: row.error ? "bad" : ["unserved", "lost", "paused"].includes(row.state) ? "warn" : null }, row.state) },
    { title: "error", of: (row) => row.error || (row.pause && `paused by ${row.pause}`) || (row.waits_for.length ? `after ${row.waits_for.join(", ")}` : "") },
  ];
  const needy = [...rows].sort((a, b) => !!b.error - !!a.error || b.lag - a.lag || a.partition - b.partition);
  return table(columns, needy);
}

function buttons(groupName, topic) {
  const at = path("groups", groupName);
  const partition = { name: "partition", title: "partition (empty: all)", type: "number" };
  const scope = (given) => ({ topic, ...(given.partition === "" ? {} : { partition: Number(given.partition) }) });
  const seek = el("button", { type: "button" }, "Seek …");
  const preview = el("div");
  seek.addEventListener("click", () => show(preview, !preview.firstChild && seekForm(at, scope)));
  return el("div", {},
    el("div", { class: "buttons" },
      action("Pause …", { question: `Pause ${groupName}/${topic}?`, text: "Its workers finish their units in hand, then wait.", fields: [partition, { name: "reason", title: "reason", required: true }], yes: "Pause", done: "paused" },
        (given) => post(`${at}/pause`, { ...scope(given), reason: given.reason })),
      action("Resume", { question: `Resume ${groupName}/${topic}?`, fields: [partition], done: "resumed" }, (given) => post(`${at}/resume`, scope(given))),
      seek),
    preview);
}

/** Ask where to, show the moves, then make them. */
function seekForm(at, scope) {
  const to = el("input", { name: "to", placeholder: "earliest, latest, an offset, a time", required: true });
  const partition = el("input", { name: "partition", type: "number" });
  const result = el("div");
  const form = el("form", {}, el("label", {}, "to", to), el("label", {}, "partition (empty: all)", partition), el("button", { class: "main" }, "Preview"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const wanted = { ...scope({ partition: partition.value }), to: to.value };
    try {
      const plan = await post(`${at}/seek`, wanted);
      show(result, moves(plan), el("div", { class: "buttons" }, action("Seek", {
        question: "Move the group?", text: "Events that it passes are not handled; events that it goes back over are handled again. Pause it first: while it works, nothing is moved.", danger: true, done: "moved",
      }, () => post(`${at}/seek`, { ...wanted, apply: true }))));
    } catch (error) {
      tell(error.message, true);
    }
  });
  return [form, result];
}

function moves(rows) {
  return table([
    { title: "partition", kind: "number", of: (row) => row.partition },
    { title: "now at", kind: "number", of: (row) => count(row.current_offset) },
    { title: "then at", kind: "number", of: (row) => count(row.new_offset) },
    { title: "handled again", kind: "number", of: (row) => count(row.again) },
    { title: "never handled", kind: "number", of: (row) => (row.skipped ? el("span", { class: "bad" }, count(row.skipped)) : "0") },
  ], rows, { empty: "nothing moves" });
}
