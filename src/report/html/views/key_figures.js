import {absent, record} from "../absent.js";
import {ranks, report, view} from "../data.js";
import {duration, node, percent} from "../format.js";
import {parts} from "./step_bar.js";

// What a dashboard shows first, in one line that opens: each figure with where it stands.

const sum = (list, field) => list.reduce((all, row) => all + row[field], 0);

// The part of a step that takes most, by the table `step_budget`.
export function limit() {
  const rows = view("step_budget").filter((row) => row.window_ns > 0);
  const [most] = parts.map((part) => ({...part, time: sum(rows, part.field)})).sort((a, b) => b.time - a.time);
  return rows.length === 0 ? null : {name: most.name, share: percent(most.time, sum(rows, "window_ns"))};
}

export function keyFigures() {
  if (ranks.length === 0) return absent("no rank has GPU activity.", record.cuda);
  const whole = sum(ranks, "window_ns");
  const idle = sum(ranks, "idle_ns");
  const most = limit();
  const frameworks = (report.run_facts ?? []).filter((one) => one.fact === "framework").flatMap((one) => one.values.map(({value}) => value));
  const figures = [
    ["GPU time", `${duration(whole - idle)} (${percent(whole - idle, whole)} of the windows)`, "#budget"],
    ["CPU time (no GPU work)", `${duration(idle)} (${percent(idle, whole)})`, "#idle"],
    ["Limited by", most === null ? "not known" : `${most.name} (${most.share})`, "#step-bar"],
    ["Frameworks seen", frameworks.length === 0 ? "none" : [...new Set(frameworks)].join("; "), "#facts"],
  ];
  return node("details", {class: "finding"}, node("summary", {}, figures.map(([name, text]) => `${name}: ${text}`).join(" \u00b7 ")),
    node("dl", {class: "facts"}, figures.map(([name, text, link]) => node("div", {}, node("dt", {}, node("a", {href: link}, name)), node("dd", {}, text)))),
    node("p", {class: "note"}, "Sums over all ranks. The change against a baseline: ", node("code", {}, "nsys-explain-mpi compare BASELINE THIS"), ", or two reports in the service."));
}
