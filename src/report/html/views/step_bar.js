import {palette} from "../charts.js";
import {absent, record} from "../absent.js";
import {stragglers, view} from "../data.js";
import {count, duration, node, percent} from "../format.js";

// Where a step goes: a bar of the mean over ranks, and one of the late rank that the verdict is about.

export const parts = [
  {field: "compute_ns", name: "compute", colour: palette[0]},
  {field: "arrival_skew_ns", name: "waiting for who comes late", colour: palette[3], pattern: "stripes"},
  {field: "transfer_ns", name: "transfers that nothing hides", colour: palette[1], pattern: "dots"},
  {field: "inconclusive_ns", name: "one of these two", colour: palette[9]},
  {field: "launch_paced_ns", name: "the host had not launched", colour: palette[7]},
  {field: "copy_ns", name: "copies", colour: palette[4]},
  {field: "opaque_graph_ns", name: "graphs", colour: palette[6]},
  {field: "idle_ns", name: "idle otherwise", colour: palette[5]},
];

const box = ({colour, pattern}, width = "") => node("i", {class: pattern ?? "plain", style: `--part:${colour};${width}`});

function bar(title, row) {
  return [node("span", {}, title), node("span", {class: "bar", role: "img", "aria-label": `${title}: ${parts.filter(({field}) => row[field] > 0)
    .map(({field, name}) => `${name} ${percent(row[field], row.window_ns)}`).join(", ")}`},
  parts.filter(({field}) => row[field] > 0).map((part) => box(part, `width:${100 * row[part.field] / row.window_ns}%`)))];
}

export function stepBar() {
  const rows = view("step_budget").filter((row) => row.window_ns > 0);
  if (rows.length === 0) return absent("no rank has GPU activity.", record.cuda);
  const steps = Math.max(1, rows[0].steps);
  const mean = Object.fromEntries([...parts.map(({field}) => field), "window_ns"].map((field) => [field, rows.reduce((sum, row) => sum + row[field], 0) / rows.length]));
  const own = rows.find((row) => row.trace_rank === stragglers[0]?.trace_rank);
  const each = (ns) => duration(Math.round(ns / steps));
  return node("div", {}, node("div", {class: "step-bars"}, bar(`mean of ${count(rows.length)} ${rows.length === 1 ? "rank" : "ranks"}`, mean),
    own && rows.length > 1 ? bar(`rank ${own.trace_rank} (late)`, own) : null),
  node("ul", {class: "step-parts"}, parts.filter(({field}) => mean[field] > 0).map((part) => node("li", {}, box(part), `${part.name} ${each(mean[part.field])} (${percent(mean[part.field], mean.window_ns)})`,
    own && rows.length > 1 ? `; rank ${own.trace_rank}: ${each(own[part.field])}` : ""))),
  rows[0].steps > 0 ? null : node("p", {class: "note"}, "No steps are known: times are of the whole run."));
}
