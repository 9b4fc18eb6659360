import {absent} from "../absent.js";
import {chart} from "../charts.js";
import {report} from "../data.js";
import {count, duration, heading, node} from "../format.js";
import {sortableTable} from "../table.js";

export function clocks() {
  const sessions = report.clock.sessions;
  if (sessions.length === 0) return absent("no session was read.");
  const residual = report.clock.residual;
  const table = sortableTable([{name: "path", title: "session", text: true}, {name: "host", text: true}, {name: "method", text: true, show: (row) => heading(row.method)},
    {name: "offset_ns", title: "offset", unit: "ns"}, {name: "drift_ppb", title: "drift (ppb)"},
    {name: "uncertainty_ns", title: "uncertainty", unit: "ns"}, {name: "component", title: "group"}], sessions, {label: "Sessions"});
  const bins = residual.histogram ?? [];
  const histogram = bins.length === 0 ? node("p", {class: "note"}, "No ends were held out of the fit, so its error was not measured.") : chart({
    tooltip: {trigger: "axis"}, xAxis: {type: "category", name: "difference", nameLocation: "middle", nameGap: 28, data: bins.map((bin) => `< ${duration(bin.to_ns)}`)},
    yAxis: {type: "value", name: "ends of collectives"}, series: [{type: "bar", data: bins.map((bin) => bin.samples)}],
  }, {height: 240, description: "How far ends of collectives held out of the fit differ"});
  return node("div", {}, node("p", {}, residual.held_out_p50_ns === null ? "" :
    `Ends held out of the fit differ by ${duration(residual.held_out_p50_ns)} (median), ${duration(residual.held_out_p90_ns)} (90% of them less) ` +
    `and ${duration(residual.held_out_max_ns)} (most) over ${count(residual.samples)} samples; ` +
    `${count(report.clock.violations ?? 0)} collectives in which a member left before the last one entered.`), histogram, table);
}
