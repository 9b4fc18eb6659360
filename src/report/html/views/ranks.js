import {chart, palette} from "../charts.js";
import {columns, identity, late, ranks, report, rows, view} from "../data.js";
import {bytes, count, duration, node, percent, short, significant, value} from "../format.js";
import {sortableTable} from "../table.js";

export function rankTable() {
  const time = (name, title) => ({name, title, unit: "ns"});
  const shown = ranks.map((rank) => ({...rank, host: identity.get(rank.trace_rank)?.host ?? "",
    gpu: identity.get(rank.trace_rank)?.gpu_name ?? "", overlap: rank.communication_ns > 0 ? rank.overlapped_ns / rank.communication_ns : 0}))
    .sort((a, b) => late.has(b.trace_rank) - late.has(a.trace_rank));  // what the verdict links to is always there
  return sortableTable([{name: "trace_rank", title: "rank"}, {name: "host", text: true}, {name: "gpu", title: "GPU", text: true},
    time("own_lateness_ns", "own lateness"), time("inherited_lateness_ns", "inherited"), time("delay_cost_ns", "cost of delays"), time("caused_wait_ns", "caused wait"),
    time("wait_ns", "wait"), {name: "last_arrivals", title: "last"}, {name: "arrivals"},
    {name: "overlap", show: (row) => percent(row.overlap, 1)}, time("exposed_communication_ns", "exposed comm."),
    time("compute_ns", "compute"), time("idle_ns", "idle"), time("window_ns", "window")], shown,
  {label: "Trace ranks", limit: 256, marked: (row) => late.has(row.trace_rank), id: (row) => `rank-${row.trace_rank}`});
}

export function budget() {
  if (ranks.length === 0) return node("p", {class: "empty"}, "No trace rank was read.");
  const parts = [["compute", "compute_ns"], ["exposed communication", "exposed_communication_ns"], ["copies", "copy_ns"],
    ["opaque graphs", "opaque_graph_ns"], ["idle", "idle_ns"]];
  const names = ranks.map((rank) => String(rank.trace_rank));
  return chart({
    grid: {bottom: ranks.length > 40 ? 72 : 48}, legend: {}, tooltip: {trigger: "axis", valueFormatter: (v) => `${significant(v, 3)}%`},
    dataZoom: ranks.length > 40 ? [{type: "slider", bottom: 8, height: 18}] : undefined,
    xAxis: {type: "category", data: names, name: "rank", nameLocation: "middle", nameGap: 26},
    yAxis: {type: "value", max: 100, axisLabel: {formatter: "{value}%"}},
    series: parts.map(([name, field], index) => ({name, type: "bar", stack: "window", barCategoryGap: ranks.length > 40 ? "0%" : "20%",
      itemStyle: {color: palette[[0, 1, 4, 6, 5][index]]},
      data: ranks.map((rank) => rank.window_ns > 0 ? 100 * rank[field] / rank.window_ns : 0)})),
  }, {description: "Share of compute, exposed communication, copies, graphs and idle time of every trace rank"});
}

// Sums by host; which place is late as a whole, the verdict says.
export function levels() {
  const byHost = new Map();
  for (const rank of ranks) {
    const host = identity.get(rank.trace_rank)?.host || "unknown host";
    const sum = byHost.get(host) ?? {host, ranks: 0, own_lateness_ns: 0, caused_wait_ns: 0, wait_ns: 0, idle_ns: 0, window_ns: 0};
    sum.ranks += 1;
    for (const name of ["own_lateness_ns", "caused_wait_ns", "wait_ns", "idle_ns", "window_ns"]) sum[name] += rank[name];
    byHost.set(host, sum);
  }
  const time = (name, title) => ({name, title, unit: "ns"});
  return sortableTable([{name: "host", text: true}, {name: "ranks"}, time("own_lateness_ns", "own lateness"),
    time("caused_wait_ns", "caused wait"), time("wait_ns", "wait"), time("idle_ns", "idle")], [...byHost.values()], {label: "Hosts"});
}

export function communicators() {
  const list = report.communicators;
  if (list.length === 0) return node("p", {class: "empty"}, "No communicator was found.");
  return sortableTable([{name: "communicator", text: true}, {name: "size"}, {name: "members", text: true, show: (row) => short(row.trace_ranks.join(" "), 60)},
    {name: "instances"}, {name: "complete"}, {name: "partial"}, {name: "unmatched_arrivals", title: "unmatched"},
    {name: "evidence", text: true}], list, {label: "Communicators"});
}

// Who sends how much to whom: a matrix as far as sends and receives were recorded.
export function matrix() {
  const cells = view("byte_matrix");
  if (cells.length === 0) return node("p", {class: "empty"}, "No send or receive with a recorded peer and size: there is no matrix between ranks.");
  const names = Object.keys(cells[0]);
  const [from, to] = names.filter((name) => /rank|source|destination|from|to$/.test(name));
  const amount = names.find((name) => name.endsWith("bytes"));
  const members = [...new Set(cells.flatMap((cell) => [cell[from], cell[to]]))].sort((a, b) => a - b);
  const most = Math.max(...cells.map((cell) => cell[amount]));
  const index = new Map(members.map((member, i) => [member, i]));
  return chart({
    tooltip: {formatter: ({data}) => `${members[data[1]]} to ${members[data[0]]}: ${bytes(data[2])}`},
    xAxis: {type: "category", data: members.map(String), name: "to"}, yAxis: {type: "category", data: members.map(String), name: "from", inverse: true},
    series: [{type: "scatter", symbol: "rect", symbolSize: ([, , size]) => 4 + 18 * Math.sqrt(size / most),
      data: cells.map((cell) => [index.get(cell[to]), index.get(cell[from]), cell[amount]])}],
  }, {height: Math.min(640, 160 + 14 * members.length), description: "Bytes sent from rank to rank"});
}

export function clocks() {
  const sessions = report.clock.sessions;
  if (sessions.length === 0) return node("p", {class: "empty"}, "No session was read.");
  const residual = report.clock.residual;
  const table = sortableTable([{name: "path", title: "session", text: true}, {name: "host", text: true}, {name: "method", text: true},
    {name: "offset_ns", title: "offset", unit: "ns"}, {name: "drift_ppb", title: "drift (ppb)"},
    {name: "uncertainty_ns", title: "uncertainty", unit: "ns"}, {name: "component", title: "group"}], sessions, {label: "Sessions"});
  const bins = residual.histogram ?? [];
  const histogram = bins.length === 0 ? node("p", {class: "empty"}, "No ends were held out of the fit, so its error was not measured.") : chart({
    tooltip: {trigger: "axis"}, xAxis: {type: "category", data: bins.map((bin) => `< ${duration(bin.to_ns)}`)},
    yAxis: {type: "value", name: "ends"}, series: [{type: "bar", data: bins.map((bin) => bin.samples)}],
  }, {height: 240, description: "How far ends of collectives held out of the fit differ"});
  return node("div", {}, node("p", {}, residual.held_out_p50_ns === null ? "" :
    `Ends held out of the fit differ by ${duration(residual.held_out_p50_ns)} (median), ${duration(residual.held_out_p90_ns)} (90% less) ` +
    `and ${duration(residual.held_out_max_ns)} (most) over ${count(residual.samples)} samples; ` +
    `${count(report.clock.violations ?? 0)} collectives in which a member left before the last one entered.`), histogram, table);
}

// Any table of the store as it is.
export function plainTable(name, options = {}) {
  const list = options.list ?? rows(name);
  if (list.length === 0) return node("p", {class: "empty"}, options.empty ?? `Table ${name} is empty for these traces.`);
  return sortableTable(columns(name).map((column) => ({name: column.name, unit: column.unit, description: column.description,
    text: typeof list[0][column.name] === "string", show: (row) => value(row[column.name], column)})), list,
  {label: name, marked: (row) => late.has(row.trace_rank), ...options});
}
