import {chart, palette} from "../charts.js";
import {late, leftOut, report, rows} from "../data.js";
import {bytes, count, duration, node, short, significant} from "../format.js";
import {sortableTable} from "../table.js";
import {plainTable} from "./ranks.js";

// Views that stand on one table each. Where the traces hold nothing for a view, it says what is missing.

const empty = (text) => node("p", {class: "empty"}, text);
const cut = (name) => leftOut(name) > 0 ? node("p", {class: "note"}, `The page holds a part of table ${name}: ${count(leftOut(name))} more rows are in the store.`) : null;

function sumBy(list, key, ...fields) {
  const sums = new Map();
  for (const row of list) {
    const name = typeof key === "function" ? key(row) : row[key];
    const sum = sums.get(name) ?? Object.fromEntries(fields.map((field) => [field, 0]));
    for (const field of fields) sum[field] += row[field] ?? 0;
    sums.set(name, sum);
  }
  return sums;
}

function cases() {
  const list = rows("straggler_cases");
  if (list.length === 0) return empty("No late rank, so no case was looked into.");
  const differences = rows("straggler_differences");
  return node("div", {}, plainTable("straggler_cases", {limit: 100}), differences.length > 0 ? node("div", {},
    node("h3", {}, "What differs from a median peer"), plainTable("straggler_differences", {limit: 100})) : null);
}

// Kernels: the sum of the top kernels over all ranks, most first, and what they leave.
function kernels() {
  const list = rows("kernels");
  if (list.length === 0) return empty("No kernel was recorded (nsys profile -t cuda).");
  const sums = [...sumBy(list, "name", "total_ns", "count")].sort((a, b) => b[1].total_ns - a[1].total_ns);
  const communication = new Set(list.filter((row) => row.communication).map((row) => row.name));
  const top = sums.slice(0, 15);
  let reached = 0;
  const before = top.map(([, sum]) => { reached += sum.total_ns; return reached - sum.total_ns; });
  return node("div", {}, chart({
    grid: {left: 330}, legend: undefined, tooltip: {trigger: "axis", axisPointer: {type: "shadow"}, formatter: (hits) => {
      const [name, sum] = top[hits[0].dataIndex];
      return `${short(name, 80)}\n${duration(sum.total_ns)} in ${count(sum.count)} executions`;
    }},
    xAxis: {type: "value", axisLabel: {formatter: duration}}, yAxis: {type: "category", inverse: true, data: top.map(([name]) => short(name, 46))},
    series: [{type: "bar", stack: "sum", silent: true, itemStyle: {color: "transparent"}, data: before},
      {type: "bar", stack: "sum", data: top.map(([name, sum]) => ({value: sum.total_ns, itemStyle: {color: communication.has(name) ? palette[1] : palette[0]}}))}],
  }, {height: 60 + 22 * top.length, description: "Time of the longest-running kernels over all trace ranks, added up"}), cut("kernels"));
}

// One strip per kernel: every point is a trace rank, its place the ratio to the peers' median.
function kernelStrips() {
  const list = rows("kernel_peers").filter((row) => row.ratio !== null);
  if (list.length === 0) return empty("No kernel ran on several trace ranks, so none can be compared across them.");
  const names = [...sumBy(list, "name", "count")].sort((a, b) => b[1].count - a[1].count).slice(0, 14).map(([name]) => name);
  const place = new Map(names.map((name, index) => [name, index]));
  const shown = list.filter((row) => place.has(row.name));
  const point = (row) => [row.ratio, place.get(row.name), row.trace_rank, row.median_ns];
  return node("div", {}, chart({
    grid: {left: 330}, legend: {}, tooltip: {formatter: ({data}) => `trace rank ${data[2]}: ${significant(data[0], 4)} times the peers' median (${duration(data[3])})`},
    xAxis: {type: "value", scale: true, name: "ratio", axisLabel: {formatter: (v) => significant(v, 4)}},
    yAxis: {type: "category", inverse: true, data: names.map((name) => short(name, 46))},
    series: [{name: "trace ranks", type: "scatter", symbolSize: 6, itemStyle: {color: palette[5], opacity: 0.6}, data: shown.filter((row) => !late.has(row.trace_rank)).map(point)},
      {name: "late trace ranks", type: "scatter", symbolSize: 9, itemStyle: {color: palette[3]}, data: shown.filter((row) => late.has(row.trace_rank)).map(point)}],
  }, {height: 90 + 24 * names.length, description: "The same kernel on every trace rank against the peers' median"}), cut("kernel_peers"));
}

function categories() {
  const list = rows("categories");
  if (list.length === 0) return empty("No GPU activity to put into categories.");
  const names = [...sumBy(list, "category", "elapsed_ns")].sort((a, b) => b[1].elapsed_ns - a[1].elapsed_ns).slice(0, 12).map(([name]) => name);
  const members = [...new Set(list.map((row) => row.trace_rank))].sort((a, b) => a - b);
  const cell = new Map(list.map((row) => [`${row.trace_rank} ${row.category}`, row.elapsed_ns]));
  return node("div", {}, chart({
    legend: {}, tooltip: {trigger: "axis", valueFormatter: duration},
    dataZoom: members.length > 40 ? [{type: "slider", bottom: 4, height: 16}] : undefined,
    xAxis: {type: "category", data: members.map(String), name: "rank", nameLocation: "middle", nameGap: 26}, yAxis: {type: "value", axisLabel: {formatter: duration}},
    series: names.map((name) => ({name, type: "bar", stack: "all", data: members.map((member) => cell.get(`${member} ${name}`) ?? 0)})),
  }, {description: "GPU time by category and trace rank, no moment counted twice"}), cut("categories"));
}

function bandwidth() {
  const list = rows("bandwidth").filter((row) => row.bus_bandwidth_gbs !== null);
  if (list.length === 0) return empty("Message sizes were not recorded, so there are no bandwidths: export with --include-blobs=true --include-json=true (NCCL 2.16 or later, -t nvtx).");
  const operations = [...new Set(list.map((row) => row.operation))];
  const expected = list.filter((row) => row.expected_gbs !== null && row.expected_gbs > 0);
  return node("div", {}, chart({
    legend: {}, tooltip: {formatter: ({data}) => `${data[2].operation}, from ${bytes(data[2].from_bytes)} on ${short(data[2].communicator, 20)}: ` +
      `${significant(data[1], 3)} GB/s over ${count(data[2].instances)} collectives`},
    xAxis: {type: "log", name: "message size", axisLabel: {formatter: bytes}}, yAxis: {type: "value", name: "bus bandwidth, GB/s"},
    series: [...operations.map((operation) => ({name: operation, type: "scatter", symbolSize: 9,
      data: list.filter((row) => row.operation === operation && row.from_bytes > 0).map((row) => [row.from_bytes, row.bus_bandwidth_gbs, row])})),
    {name: "expected", type: "scatter", symbol: "rect", symbolSize: [14, 2], itemStyle: {color: palette[5]},
      data: expected.filter((row) => row.from_bytes > 0).map((row) => [row.from_bytes, row.expected_gbs, row])}],
  }, {description: "Bus bandwidth by message size"}), cut("bandwidth"));
}

function nvlink() {
  if (!report.nvlink.available && rows("nvlink").length === 0) return empty(report.nvlink.message || "NVLink counters not found.");
  return node("div", {}, overTime("nvlink_series", "percent", "NVLink utilisation"), plainTable("nvlink", {limit: 100}));
}

// A series over time of one trace rank, chosen above the chart, with the communication of the same rank behind it.
function overTime(name, unit, title) {
  const list = rows(name);
  if (list.length === 0) return null;
  const members = [...new Set(list.map((row) => row.trace_rank))].sort((a, b) => a - b);
  const numeric = Object.keys(list[0]).filter((column) => typeof list[0][column] === "number" && !["trace_rank", "start_ns", "span_ns"].includes(column));
  const place = node("div");
  const select = node("select", {"aria-label": "Trace rank", onchange: () => draw(Number(select.value))},
    members.map((member) => node("option", {value: member}, `trace rank ${member}${late.has(member) ? " (late)" : ""}`)));
  function draw(member) {
    const points = list.filter((row) => row.trace_rank === member);
    place.replaceChildren(chart({
      legend: {}, tooltip: {trigger: "axis"}, xAxis: {type: "value", scale: true, axisLabel: {formatter: duration}}, yAxis: {type: "value", name: unit},
      dataZoom: [{type: "inside"}, {type: "slider", bottom: 4, height: 16}],
      series: numeric.map((column) => ({name: column.replaceAll("_", " "), type: "line", showSymbol: false, step: "end", data: points.map((row) => [row.start_ns, row[column]])})),
    }, {description: `${title} of trace rank ${member} over time`}));
  }
  draw(members.find((member) => late.has(member)) ?? members[0]);
  return node("div", {}, node("div", {class: "controls"}, select), place);
}

function utilisation() {
  const list = rows("gpu_utilisation");
  if (list.length === 0) return empty("No GPU activity.");
  const parts = ["compute_ns", "exposed_communication_ns", "copy_ns", "opaque_graph_ns", "idle_ns"].filter((part) => part in list[0]);
  const members = [...new Set(list.map((row) => row.trace_rank))].sort((a, b) => a - b);
  const place = node("div");
  const select = node("select", {"aria-label": "Trace rank", onchange: () => draw(Number(select.value))},
    members.map((member) => node("option", {value: member}, `trace rank ${member}${late.has(member) ? " (late)" : ""}`)));
  function draw(member) {
    const points = list.filter((row) => row.trace_rank === member);
    place.replaceChildren(chart({
      legend: {}, tooltip: {trigger: "axis", valueFormatter: (v) => `${significant(v, 3)}%`}, xAxis: {type: "category", data: points.map((row) => duration(row.start_ns))},
      yAxis: {type: "value", max: 100, axisLabel: {formatter: "{value}%"}},
      series: parts.map((part, index) => ({name: part.replace("_ns", "").replaceAll("_", " "), type: "bar", stack: "all", barCategoryGap: "0%",
        itemStyle: {color: palette[[0, 1, 4, 6, 5][index]]}, data: points.map((row) => row.span_ns > 0 ? 100 * row[part] / row.span_ns : 0)})),
    }, {description: `What the GPU of trace rank ${member} did over time`}));
  }
  const first = members.find((member) => late.has(member)) ?? members[0];
  select.value = first;
  draw(first);
  return node("div", {}, node("div", {class: "controls"}, select), place, cut("gpu_utilisation"));
}

// Points of arithmetic intensity under the ceilings of the GPU.
function roofline() {
  const list = rows("roofline").filter((row) => row.flops_per_byte > 0 || row.intensity_flops_per_byte > 0);
  if (list.length === 0) return empty("No operation counts: give Nsight Compute's CSV with --ncu, or GEMM shapes with --cublas-log.");
  return plainTable("roofline", {limit: 100});
}

function histogram(name, missing, description) {
  const list = rows(name);
  if (list.length === 0) return empty(missing);
  const sums = [...sumBy(list, "lower_ns", "count")].sort((a, b) => a[0] - b[0]);
  return chart({tooltip: {trigger: "axis", valueFormatter: count}, xAxis: {type: "category", data: sums.map(([lower]) => duration(lower)), name: "from"},
    yAxis: {type: "value", axisLabel: {formatter: count}}, series: [{type: "bar", data: sums.map(([, sum]) => sum.count)}]}, {height: 260, description});
}

function concurrency() {
  const list = rows("stream_concurrency");
  if (list.length === 0) return empty("No GPU activity.");
  const levels = [...new Set(list.map((row) => row.busy_streams))].sort((a, b) => a - b);
  const sums = sumBy(list, "busy_streams", "duration_ns");
  const whole = [...sums.values()].reduce((sum, one) => sum + one.duration_ns, 0);
  return chart({tooltip: {trigger: "axis", valueFormatter: (v) => `${significant(v, 3)}%`}, xAxis: {type: "category", data: levels.map((level) => `${level} busy`)},
    yAxis: {type: "value", axisLabel: {formatter: "{value}%"}}, series: [{type: "bar", data: levels.map((level) => 100 * sums.get(level).duration_ns / whole)}]},
  {height: 240, description: "Share of time by the number of streams that are busy"});
}

function idle() {
  const list = rows("idle_causes");
  if (list.length === 0) return empty("No idle time between GPU activities.");
  const causes = [...new Set(list.map((row) => row.cause))];
  const members = [...new Set(list.map((row) => row.trace_rank))].sort((a, b) => a - b);
  const field = Object.keys(list[0]).find((name) => name === "total_ns" || name === "duration_ns");
  const cell = new Map(list.map((row) => [`${row.trace_rank} ${row.cause}`, row[field]]));
  return node("div", {}, chart({legend: {}, tooltip: {trigger: "axis", valueFormatter: duration}, xAxis: {type: "category", data: members.map(String), name: "rank", nameLocation: "middle", nameGap: 26},
    yAxis: {type: "value", axisLabel: {formatter: duration}},
    series: causes.map((cause) => ({name: cause.replaceAll("_", " "), type: "bar", stack: "all", data: members.map((member) => cell.get(`${member} ${cause}`) ?? 0)}))},
  {height: 260, description: "Idle time of every GPU by cause"}), node("h3", {}, "Longest gaps"), plainTable("idle_gaps", {limit: 40}));
}

function host() {
  const barriers = rows("barriers");
  const sums = [...sumBy(barriers, (row) => `${row.kind}: ${row.name}`, "count", "total_ns")].map(([name, sum]) => ({name, ...sum})).sort((a, b) => b.total_ns - a.total_ns);
  return node("div", {}, sums.length === 0 ? empty("No call that waits for the GPU was recorded.") : sortableTable([{name: "name", text: true}, {name: "count"},
    {name: "total_ns", title: "total", unit: "ns"}], sums, {label: "Barriers between CPU and GPU", limit: 30}), node("h3", {}, "Copies and sets"),
  plainTable("memory_transfers", {limit: 40, empty: "No copy or set was recorded."}));
}

function phases() {
  const list = rows("phases");
  if (list.length === 0) return empty("No phase was recognised: the traces hold no NVTX ranges that name steps, prefill, decode, forward, backward or optimizer; --phase-map FILE names others.");
  const names = [...new Set(list.map((row) => row.phase))];
  const members = [...new Set(list.map((row) => row.trace_rank))].sort((a, b) => a - b);
  const cell = new Map(list.map((row) => [`${row.trace_rank} ${row.phase}`, row.projected_ns]));
  return node("div", {}, chart({legend: {}, tooltip: {trigger: "axis", valueFormatter: duration}, xAxis: {type: "category", data: members.map(String), name: "rank", nameLocation: "middle", nameGap: 26},
    yAxis: {type: "value", axisLabel: {formatter: duration}}, series: names.map((name) => ({name, type: "bar", data: members.map((member) => cell.get(`${member} ${name}`) ?? 0)}))},
  {height: 260, description: "GPU time of every phase by trace rank"}), plainTable("phases", {limit: 60}));
}

export const analyses = [
  {id: "cases", title: "Why they are late", note: "The costliest collectives that a late rank delayed, and what it did differently from the median peer.", build: cases},
  {id: "bandwidth", title: "Bandwidth", note: "Wait-free bus bandwidth by message size (from the latest enter to the exit), GB = 1e9.", build: bandwidth},
  {id: "nvlink", title: "NVLink", note: "Counters of nsys' GPU metrics during and outside of collectives.", build: nvlink},
  {id: "kernels", title: "Kernels", note: "The longest-running kernels over all trace ranks, added up from the left; communication in the other colour.", build: kernels},
  {id: "strips", title: "The same kernel on all ranks", note: "Median duration on each trace rank against the median of its peers.", build: kernelStrips},
  {id: "categories", title: "Categories", note: "GPU time by kind of kernel, no moment counted twice.", build: categories},
  {id: "utilisation", title: "GPU over time", note: "What the GPU of one trace rank did in each span of its window.", build: utilisation},
  {id: "roofline", title: "Roofline", note: "Achieved against the GPU's peaks.", build: roofline},
  {id: "latency", title: "Launch latency", note: "From the launch call's start to the kernel's start, over all trace ranks.", build: () => histogram("launch_latency", "No kernel with its launch call was recorded.", "Launch latency histogram")},
  {id: "concurrency", title: "Streams at once", note: "How many streams of a GPU were busy at the same time, over all trace ranks.", build: concurrency},
  {id: "idle", title: "Idle GPUs", note: "Gaps between GPU activities, by why the GPU had nothing to do.", build: idle},
  {id: "host", title: "Host and copies", note: "Calls in which the host waited for the GPU, and memory operations.", build: host},
  {id: "phases", title: "Phases", note: "NVTX ranges that name steps, prefill, decode, forward, backward or optimizer, projected onto the GPU.", build: phases},
];
