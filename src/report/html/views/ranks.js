import {absent, record} from "../absent.js";
import {chart, palette, rankAxis} from "../charts.js";
import {identity, late, leftOut, ranks, report, rows} from "../data.js";
import {heading, node, percent, short, significant} from "../format.js";
import {plainTable, sortableTable} from "../table.js";

export function rankTable() {
  const time = (name, title) => ({name, title, unit: "ns"});
  const shown = ranks.map((rank) => ({...rank, host: identity.get(rank.trace_rank)?.host ?? "",
    gpu: identity.get(rank.trace_rank)?.gpu_name ?? "", overlap: rank.communication_ns > 0 ? rank.overlapped_ns / rank.communication_ns : 0}))
    .sort((a, b) => late.has(b.trace_rank) - late.has(a.trace_rank));  // what the verdict links to is always there
  if (shown.length === 0) return absent("no rank was read.", record.cuda);
  return sortableTable([{name: "trace_rank", title: "rank"}, {name: "host", text: true}, {name: "gpu", title: "GPU", text: true},
    time("own_lateness_ns", "own lateness"), time("inherited_lateness_ns", "inherited lateness"), time("caused_wait_ns", "caused wait"),
    time("wait_ns", "wait"), {name: "last_arrivals", title: "came last"}, {name: "arrivals"},
    {name: "overlap", show: (row) => percent(row.overlap, 1)}, {name: "bus_bandwidth_gbs", title: "bus bandwidth", unit: "GB/s"},
    time("exposed_communication_ns", "exposed communication"),
    time("compute_ns", "compute"), time("idle_ns", "idle"), time("window_ns", "window")], shown,
  {label: "Ranks", limit: 256, marked: (row) => late.has(row.trace_rank), id: (row) => `ranks-${row.trace_rank}`});
}

// Bars of one percentage scale, a stack for every trace rank: parts are [title, colour, share of a rank from 0 to 1].
function shareBars(parts, title, description) {
  return chart({
    ...rankAxis(ranks.map((rank) => rank.trace_rank)), legend: {}, tooltip: {trigger: "axis", valueFormatter: (v) => `${significant(v, 3)}%`},
    yAxis: {type: "value", max: 100, name: title, nameTextStyle: {align: "left"}, axisLabel: {formatter: "{value}%"}},
    series: parts.map(([name, colour, share]) => ({name, type: "bar", stack: "all", barCategoryGap: ranks.length > 40 ? "0%" : "20%",
      itemStyle: {color: palette[colour]}, data: ranks.map((rank) => 100 * share(rank))})),
  }, {description});
}

export function budget() {
  if (ranks.length === 0) return absent("no rank was read.", record.cuda);
  const of = (field, whole) => (rank) => rank[whole] > 0 ? rank[field] / rank[whole] : 0;
  const parts = [["compute", 0, "compute_ns"], ["exposed communication", 1, "exposed_communication_ns"], ["copies", 4, "copy_ns"],
    ["opaque graphs", 6, "opaque_graph_ns"], ["idle", 5, "idle_ns"]].map(([name, colour, field]) => [name, colour, of(field, "window_ns")]);
  return node("div", {}, shareBars(parts, "share of its window", "Share of compute, exposed communication, copies, graphs and idle time of every rank"),
    node("h3", {}, "Overlap"), ranks.every((rank) => rank.communication_ns === 0) ? node("p", {class: "note"}, "No communication kernel ran.")
      : shareBars([["hidden by compute", 2, of("overlapped_ns", "communication_ns")],
        ["exposed", 1, of("exposed_communication_ns", "communication_ns")]],
      "share of its communication", "Share of every rank's communication that compute hides"));
}

export function communicators() {
  const list = report.communicators;
  if (list.length === 0) return absent("no communication kernel ran.");
  const called = list.some((row) => row.given_name) ? [{name: "given_name", title: "called", text: true, show: (row) => row.given_name ?? "-"}] : [];
  return sortableTable([{name: "communicator", text: true}, ...called, {name: "size"}, {name: "members", text: true, show: (row) => short(row.trace_ranks.join(" "), 60)},
    {name: "instances"}, {name: "complete"}, {name: "partial"}, {name: "unmatched_arrivals", title: "unmatched"},
    {name: "evidence", text: true, show: (row) => heading(row.evidence)}], list, {label: "Communicators"});
}

// Processes of which no GPU work was recorded, with what their hosts did.
export function hostProcesses() {
  const numbers = new Set(rows("host_processes").map((row) => row.trace_rank));
  const part = (title, name, empty) => [node("h3", {}, title), plainTable(name, {limit: 40, empty, list: rows(name).filter((row) => numbers.has(row.trace_rank)),
    leftOut: ranks.length === 0 ? leftOut(name) : 0})];
  return node("div", {}, plainTable("host_processes", {limit: 40}), part("NVTX ranges and MPI calls", "nvtx_sum", "None was recorded (-t nvtx,mpi)."),
    part("CUDA calls", "cuda_api", "None was recorded (-t cuda)."), part("Calls into the operating system", "os_runtime", "None was recorded (-t osrt)."),
    part("CPU samples", "cpu_functions", "None was recorded (--sample=process-tree)."));
}
