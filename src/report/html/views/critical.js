import {absent, record} from "../absent.js";
import {chart, palette, rankAxis} from "../charts.js";
import {ranks, view} from "../data.js";
import {duration, heading, node} from "../format.js";
import {plainTable} from "../table.js";

// What the end of the run waited for, and what communication without compute was.

const colours = {compute: palette[0], transfer: palette[1], launch: palette[6], host: palette[7], copy: palette[4], arrival_skew: palette[3], inconclusive: palette[9], unmatched: palette[2]};

// A bar per place in `names`, stacked by the kinds in `rows`.
function stacked(rows, place, kind, names) {
  const cell = new Map(rows.map((row) => [`${row[place]} ${row[kind]}`, row.duration_ns]));
  return [...new Set(rows.map((row) => row[kind]))].sort().map((name) => ({name: heading(name), type: "bar", stack: "all",
    barCategoryGap: names.length > 40 ? "0%" : "20%", itemStyle: {color: colours[name] ?? palette[5]}, data: names.map((one) => cell.get(`${one} ${name}`) ?? 0)}));
}

export function criticalPath() {
  const rows = view("critical_path");
  if (rows.length === 0) return absent("the run was not replayed, so what its end waited for is not known.", ranks.length < 2 ? record.everyRank : null);
  const steps = [...new Set(rows.map((row) => row.step))].sort((a, b) => a - b);
  const axis = rankAxis(steps);
  return node("div", {}, chart({
    ...axis, xAxis: {...axis.xAxis, name: "step", data: steps.map((step) => step < 0 ? "outside" : String(step))}, legend: {},
    tooltip: {trigger: "axis", valueFormatter: duration}, yAxis: {type: "value", axisLabel: {formatter: duration}},
    series: stacked(rows, "step", "kind", steps),
  }, {description: "The critical path by step and kind"}), plainTable("critical_path", {limit: 40}));
}

export function exposedCommunication() {
  const rows = view("exposed_communication");
  if (rows.length === 0) return absent("no communication ran without compute.");
  const members = [...new Set(rows.map((row) => row.trace_rank))].sort((a, b) => a - b);
  return node("div", {}, chart({
    ...rankAxis(members), legend: {}, tooltip: {trigger: "axis", valueFormatter: duration}, yAxis: {type: "value", axisLabel: {formatter: duration}},
    series: stacked(rows, "trace_rank", "collective", members),
  }, {description: "Communication without compute, by rank and what the collective did"}), plainTable("exposed_communication", {limit: 40}));
}
