// What a late trace rank did before a collective, beside the median peer that did the same (tables straggler_cases and
// long_waits, whose columns come in pairs: x_ns and peer_x_ns).

import {chart, palette} from "../charts.js";
import {columns, late, view} from "../data.js";
import {apart, count, duration, heading, node} from "../format.js";
import {sortableTable} from "../table.js";

export const stragglerCases = view("straggler_cases");
export const longWaits = view("long_waits");

// The cases in which a collective was looked into: before it the last arriver's work was compared with a peer's.
export function casesOf(instance) {
  const own = stragglerCases.filter((row) => row.instance === instance);
  return own.length > 0 ? own : longWaits.filter((row) => row.instance === instance);
}

// How much longer the last arriver worked than its peer.
export function behind(row) {
  return row.work_ns - row.peer_work_ns;
}

// The case that shows best what went differently, one that speaks for a cause if there is any; null among none.
function mostTelling(cases) {
  const speaking = cases.filter((row) => row.cause !== "none");
  return (speaking.length > 0 ? speaking : cases).reduce((best, row) => best === null || behind(row) > behind(best) ? row : best, null);
}

export function tellingCaseOf(rank) {
  return mostTelling(stragglerCases.filter((row) => row.trace_rank === rank));
}

export function causeText(row) {
  return row.cause === "none" ? "behind since an earlier collective" : heading(row.cause);
}

const totals = ["work_ns", "kernel_ns"];

function parts(row) {
  return Object.keys(row).filter((name) => name.endsWith("_ns") && `peer_${name}` in row && !totals.includes(name))
    .filter((name) => row[name] > 0 || row[`peer_${name}`] > 0)
    .sort((a, b) => Math.abs(row[b] - row[`peer_${b}`]) - Math.abs(row[a] - row[`peer_${a}`]));
}

// What happened during a part of the work, as its column says.
const meanings = new Map(columns("straggler_cases").map((column) => [column.name, column.description.split(" in which ")[1] ?? ""]));

function names(row) {
  return [`rank ${row.trace_rank}${late.has(row.trace_rank) ? " (late)" : ""}`, `rank ${row.peer_trace_rank} (median peer)`];
}

// Two bars per item, one for either rank.
function pairedBars(titles, items, description) {
  const series = (index, field, colour) => ({name: titles[index], type: "bar", barGap: "10%", itemStyle: {color: colour}, data: items.map((item) => item[field])});
  return chart({
    grid: {left: 190, bottom: 56}, legend: {}, tooltip: {trigger: "axis", axisPointer: {type: "shadow"}, valueFormatter: duration},
    xAxis: {type: "value", name: "time of its work", nameLocation: "middle", nameGap: 28, axisLabel: {formatter: duration}},
    yAxis: {type: "category", inverse: true, data: apart(items.map((item) => item.name), 26)},
    series: [series(0, "here", palette[3]), series(1, "peer", palette[5])],
  }, {height: 110 + 42 * items.length, description});
}

export function sideBySide(row, title = "What it did before, beside its median peer") {
  const titles = names(row);
  const items = parts(row).slice(0, 8).map((name) => ({name: heading(name), here: row[name], peer: row[`peer_${name}`]}));
  const text = `Since the collective before, ${titles[0]} worked ${duration(row.work_ns)} and ${titles[1]} ${duration(row.peer_work_ns)}: ` +
    `${duration(Math.abs(behind(row)))} ${behind(row) >= 0 ? "more" : "less"}. ` +
    (row.cause === "none" ? "The delay does not come from here: it was behind since an earlier collective. "
      : `This speaks for ${causeText(row)}; what differs most for it is ${heading(row.part)}. `) +
    (row.same_kernels ? "Both launched the same kernels with the same grids." : "They launched different kernels.");
  const line = (name, here, peer, unit, meaning = "") => ({name, here, peer, difference: here - peer, unit, meaning});
  const lines = [line("work", row.work_ns, row.peer_work_ns, "ns", "all of it"),
    ...parts(row).map((name) => line(heading(name), row[name], row[`peer_${name}`], "ns", meanings.get(name))),
    line("kernels launched", row.kernels, row.peer_kernels), line("sum of kernel durations", row.kernel_ns, row.peer_kernel_ns, "ns"),
    line("synchronising calls", row.synchronisations, row.peer_synchronisations), line("allocations", row.allocations, row.peer_allocations)];
  const figure = (name, title) => ({name, title, show: (one) => (one.unit === "ns" ? duration : count)(one[name])});
  return node("div", {class: "divergence"}, node("h3", {}, title), node("p", {}, text),
    items.length > 0 ? pairedBars(titles, items, `Work before ${row.instance < 0 ? "a collective that is not matched" : `collective ${row.instance}`}: ${titles.join(" beside ")}`) : null,
    sortableTable([{name: "name", title: "part of the work", text: true}, figure("here", titles[0]), figure("peer", titles[1]), figure("difference", "difference"),
      {name: "meaning", title: "while", text: true}], lines, {label: "Work before the collective"}));
}

// Kernels, copies, calls and ranges that differ, over the costliest of the collectives that a trace rank delayed.
export function byName(rank) {
  const differences = view("straggler_differences").filter((one) => one.trace_rank === rank);
  if (differences.length === 0) return null;
  const titles = [`rank ${rank}`, "its median peer"];
  const items = differences.slice(0, 8).map((one) => ({name: one.name, here: one.total_ns, peer: one.peer_total_ns}));
  return node("div", {}, node("h3", {}, `What rank ${rank} does differently, by name`),
    node("p", {class: "note"}, "Before several of the costliest collectives that it delayed, together; largest difference first."),
    pairedBars(titles, items, `Largest differences by name: ${titles.join(" beside ")}`),
    sortableTable([{name: "kind", text: true, show: (one) => heading(one.kind)}, {name: "name", text: true}, {name: "shape", text: true},
      {name: "count", title: `count, ${rank}`}, {name: "peer_count", title: "count, peer"}, {name: "total_ns", title: `time, ${rank}`, unit: "ns"},
      {name: "peer_total_ns", title: "time, peer", unit: "ns"}, {name: "difference_ns", title: "difference", unit: "ns"}], differences, {label: "Differences by name", limit: 60}));
}
