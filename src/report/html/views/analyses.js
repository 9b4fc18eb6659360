import {absent, isAbsent, record} from "../absent.js";
import {chart, palette, rankAxis} from "../charts.js";
import {late, ranks, report, rows, view} from "../data.js";
import {apart, bytes, count, duration, heading, node, rough, short, significant} from "../format.js";
import {plainTable, sortableTable} from "../table.js";
import {counterPoints, counterRoofline} from "./counters.js";
import {waterfall} from "./waterfall.js";

// Views that stand on one table each. Where the traces hold nothing for a view, it says what is missing.

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

// Kernels: the sums over all ranks, most first.
function kernels() {
  const list = view("kernels");
  if (list.length === 0) return absent("no kernel was recorded.", record.cuda);
  return node("div", {}, waterfall(list), node("h3", {}, "By rank"), plainTable("kernels", {limit: 40}));
}

// One strip per kernel: every point is a trace rank, its place the ratio to the peers' median.
function kernelStrips() {
  const list = view("kernel_peers").filter((row) => row.ratio !== null);
  if (list.length === 0) return absent("no kernel ran on several ranks, so none can be compared across them.", ranks.length < 2 ? record.everyRank : null);
  const names = [...new Set(list.map((row) => row.name))];
  const place = new Map(names.map((name, index) => [name, index]));
  const point = (row) => [row.ratio, place.get(row.name), row.trace_rank, row.peers_median_ns];
  return node("div", {}, chart({
    grid: {left: 330}, legend: {}, tooltip: {formatter: ({data}) => `rank ${data[2]}: ${significant(data[0], 4)} times the peers' median (${duration(data[3])})`},
    xAxis: {type: "value", scale: true, name: "median duration / median of the peers", nameLocation: "middle", nameGap: 28, axisLabel: {formatter: (v) => significant(v, 4)}},
    yAxis: {type: "category", inverse: true, data: apart(names, 46)},
    series: [{name: "ranks", type: "scatter", symbolSize: 6, itemStyle: {color: palette[5], opacity: 0.6}, data: list.filter((row) => !late.has(row.trace_rank)).map(point)},
      {name: "late ranks", type: "scatter", symbolSize: 9, itemStyle: {color: palette[3]}, data: list.filter((row) => late.has(row.trace_rank)).map(point)}],
  }, {height: 90 + 24 * names.length, description: "The same kernel on every rank against the peers' median"}),
  node("h3", {}, "Speed of each GPU, over the kernels that its peers run, too"), plainTable("gpu_speed", {limit: 60, list: [...rows("gpu_speed")].sort((a, b) => b.ratio - a.ratio)}),
  node("h3", {}, "Throttling"), plainTable("gpu_throttling", {limit: 40, empty: "No GPU ran below its clock, or its clocks were not recorded (--gpu-metrics-devices)."}),
  node("h3", {}, "SMs, tensor cores, memory and PCIe"), plainTable("gpu_counters", {limit: 60, empty: "No GPU metrics were recorded (--gpu-metrics-devices=cuda-visible)."}));
}

function categories() {
  const list = view("categories");
  if (list.length === 0) return absent("no GPU activity was recorded.", record.cuda);
  const largest = [...sumBy(list, "category", "elapsed_ns")].sort((a, b) => b[1].elapsed_ns - a[1].elapsed_ns).map(([name]) => name);
  const kept = new Set(largest.length > palette.length ? largest.slice(0, palette.length - 1) : largest);
  const nameOf = (row) => kept.has(row.category) ? row.category : "others";
  const names = [...kept, ...(kept.size < largest.length ? ["others"] : [])];
  const members = [...new Set(list.map((row) => row.trace_rank))].sort((a, b) => a - b);
  const cell = new Map([...sumBy(list, (row) => `${row.trace_rank} ${nameOf(row)}`, "elapsed_ns")].map(([key, sum]) => [key, sum.elapsed_ns]));
  return node("div", {}, chart({
    ...rankAxis(members), legend: {}, tooltip: {trigger: "axis", valueFormatter: duration}, yAxis: {type: "value", name: "GPU time", axisLabel: {formatter: duration}},
    color: [palette[0], ...palette.slice(2)],
    series: names.map((name) => ({name: heading(name), type: "bar", stack: "all", itemStyle: name === "communication" ? {color: palette[1]} : {},
      data: members.map((member) => cell.get(`${member} ${name}`) ?? 0)})),
  }, {description: "GPU time by category and rank, no moment counted twice"}));
}

function bandwidth() {
  const list = view("bandwidth").filter((row) => row.bus_bandwidth_gbs !== null);
  if (report.collectives.instances === 0) return absent("no collective was matched between ranks, so no transfer can be measured: give the traces of all ranks over the same steps.", record.everyRank);
  if (list.length === 0) return absent("message sizes were not exported (NCCL 2.16 or later records them).", record.payload);
  const operations = [...new Set(list.map((row) => row.operation))];
  const expected = list.filter((row) => row.expected_gbs !== null && row.expected_gbs > 0);
  return node("div", {}, chart({
    grid: {right: 30, bottom: 56}, legend: {}, tooltip: {formatter: ({data}) => `${heading(data[2].operation)}, from ${bytes(data[2].from_bytes)} on ${short(data[2].communicator, 20)}: ` +
      `${significant(data[1], 3)} GB/s over ${count(data[2].instances)} collectives`},
    xAxis: {type: "log", name: "message size", nameLocation: "middle", nameGap: 30, axisLabel: {formatter: bytes}}, yAxis: {type: "value", name: "bus bandwidth, GB/s"},
    series: [...operations.map((operation) => ({name: heading(operation), type: "scatter", symbolSize: 9,
      data: list.filter((row) => row.operation === operation && row.from_bytes > 0).map((row) => [row.from_bytes, row.bus_bandwidth_gbs, row])})),
    {name: "expected", type: "scatter", symbol: "rect", symbolSize: [14, 2], itemStyle: {color: palette[5]},
      data: expected.filter((row) => row.from_bytes > 0).map((row) => [row.from_bytes, row.expected_gbs, row])}],
  }, {description: "Bus bandwidth by message size"}), node("h3", {}, "Slow links"),
  plainTable("slow_links", {limit: 40, empty: "No link is slower than others of its kind."}));
}

// What a collective could take before compute begins later, and what a step consists of.
function slack() {
  return view("slack").length === 0 ? absent("the run was not replayed, so what waits for which collective is not known.", record.everyRank) : plainTable("slack", {limit: 40});
}

function stepBudget() {
  const list = view("step_budget");
  if (list.length === 0) return absent("no rank has GPU activity.", record.cuda);
  return node("div", {}, plainTable("step_budget", {limit: 40}), node("h3", {}, "The n-th collective of a step"),
    plainTable("collectives_in_step", {limit: 40, empty: "No steps are known."}));
}

// Draws what `draw(rank)` returns for the trace rank that is chosen above it; a late one at first.
function byRank(list, draw) {
  const members = [...new Set(list.map((row) => row.trace_rank))].sort((a, b) => a - b);
  const place = node("div");
  const show = (member) => place.replaceChildren(draw(member, list.filter((row) => row.trace_rank === member)));
  const select = node("select", {"aria-label": "Rank", onchange: () => show(Number(select.value))},
    members.map((member) => node("option", {value: member}, `rank ${member}${late.has(member) ? " (late)" : ""}`)));
  const first = members.find((member) => late.has(member)) ?? members[0];
  select.value = first;
  show(first);
  const others = report.ranks.length - members.length;
  return node("div", {}, node("div", {class: "controls"}, select,
    others > 0 ? node("span", {class: "note"}, `late ranks and some others; ${count(others)} more are in the store`) : null), place);
}

function nvlink() {
  if (!report.nvlink.available && rows("nvlink").length === 0) {
    if (rows("gpu_counters").length > 0) return absent(`${report.nvlink.message}.`);
    return absent("no NVLink counters were recorded.", record.metrics);
  }
  const list = view("nvlink_over_time");
  return node("div", {}, list.length > 0 ? byRank(list, linksOverTime) : null, plainTable("nvlink", {limit: 100}));
}

// Traffic of one trace rank's links, over the time that it spends in collectives.
function linksOverTime(member, points) {
  const metrics = [...new Set(points.map((row) => row.metric))];
  const shares = points.filter((row) => row.metric === metrics[0]);
  const at = (row) => row.start_ns + row.span_ns / 2;
  return chart({
    grid: {bottom: 88}, legend: {}, tooltip: {trigger: "axis", valueFormatter: (v) => v === null || v === undefined ? "-" : `${significant(v, 3)}%`},
    xAxis: {type: "value", scale: true, name: "time", nameLocation: "middle", nameGap: 24, axisLabel: {formatter: duration}},
    yAxis: {type: "value", min: 0, max: 100, name: "share of the links' peak, of time", nameTextStyle: {align: "left"}, axisLabel: {formatter: "{value}%"}},
    dataZoom: [{type: "slider", bottom: 16, height: 16}],
    series: [{name: "time in collectives", type: "line", step: "middle", showSymbol: false, lineStyle: {width: 0}, areaStyle: {color: palette[5], opacity: 0.3},
      itemStyle: {color: palette[5]}, data: shares.map((row) => [at(row), row.collectives_percent])},
    ...metrics.map((metric, index) => ({name: metric, type: "line", showSymbol: false, itemStyle: {color: palette[index]},
      data: points.filter((row) => row.metric === metric).map((row) => [at(row), row.mean_percent])}))],
  }, {description: `NVLink traffic of rank ${member} over time, and the share of time it was in collectives`});
}

function utilisation() {
  const list = view("gpu_utilisation");
  if (list.length === 0) return absent("no GPU activity was recorded.", record.cuda);
  const parts = ["compute_ns", "exposed_communication_ns", "copy_ns", "opaque_graph_ns", "idle_ns"].filter((part) => part in list[0]);
  return byRank(list, (member, points) => chart({
    legend: {}, tooltip: {trigger: "axis", valueFormatter: (v) => `${significant(v, 3)}%`}, xAxis: {type: "category", name: "time", nameLocation: "middle", nameGap: 28, data: points.map((row) => rough(row.start_ns))},
    yAxis: {type: "value", max: 100, name: "share of each span", axisLabel: {formatter: "{value}%"}},
    series: parts.map((part, index) => ({name: heading(part), type: "bar", stack: "all", barCategoryGap: "0%",
      itemStyle: {color: palette[[0, 1, 4, 6, 5][index]]}, data: points.map((row) => row.span_ns > 0 ? 100 * row[part] / row.span_ns : 0)})),
  }, {description: `What the GPU of rank ${member} did over time`}));
}

// The roof over some kernels of one GPU: bandwidth times intensity, up to the peak where a kernel lies under the flat part.
function roof(points) {
  const peaks = points.filter((row) => row.peak_gbs > 0 && row.attainable_tflops > 0);
  if (peaks.length === 0) return [];
  const tflopsPerIntensity = peaks[0].peak_gbs / 1000;
  const flat = peaks.filter((row) => row.attainable_tflops < 0.999 * row.intensity * tflopsPerIntensity).map((row) => row.attainable_tflops);
  const intensities = points.map((row) => row.intensity);
  const [least, most] = [Math.min(...intensities) / 2, Math.max(...intensities) * 2];
  if (flat.length === 0) return [[least, least * tflopsPerIntensity], [most, most * tflopsPerIntensity]];
  const ridge = flat[0] / tflopsPerIntensity;
  return [[Math.min(least, ridge / 2), Math.min(least, ridge / 2) * tflopsPerIntensity], [ridge, flat[0]], [most, flat[0]]];
}

// Kernels by arithmetic intensity under the ceiling of their GPU.
function roofline() {
  const list = view("roofline").filter((row) => row.intensity > 0 && row.achieved_tflops > 0);
  const sampled = counterPoints(view("kernel_counters"));
  const ofCounters = sampled.length === 0 ? [] : [byRank(sampled, counterRoofline)];
  if (list.length === 0 && sampled.length > 0) return node("div", {}, ofCounters);
  if (list.length === 0) {
    const unknown = absent("the operations and bytes of no kernel are known, and no GPU metrics tell what kernels do.", record.compute);
    return rows("model_flops").length > 0 ? node("div", {}, unknown, plainTable("model_flops", {limit: 60})) : unknown;
  }
  const bounds = [...new Set(list.map((row) => row.bound))].sort();
  const label = (row) => `${short(row.kernel, 70)} on rank ${row.trace_rank}\n${significant(row.achieved_tflops, 3)} of ` +
    `${row.attainable_tflops > 0 ? significant(row.attainable_tflops, 3) : "unknown"} attainable TFLOP/s at ${significant(row.intensity, 3)} FLOP/byte; ` +
    `${count(row.count)} executions, ${duration(row.total_ns)}`;
  return node("div", {}, ...ofCounters, sampled.length > 0 ? node("h3", {}, "By Nsight Compute") : null, byRank(list, (member, points) => chart({
    legend: {}, tooltip: {formatter: ({data}) => data[2] ? label(data[2]) : ""},
    xAxis: {type: "log", name: "arithmetic intensity, FLOP/byte", nameLocation: "middle", nameGap: 26}, yAxis: {type: "log", name: "achieved TFLOP/s", nameTextStyle: {align: "left"}},
    series: [...bounds.map((bound, index) => ({name: bound === "-" ? "not classified" : `bound by ${bound}`, type: "scatter", symbolSize: 11, itemStyle: {color: palette[index]},
      data: points.filter((row) => row.bound === bound).map((row) => [row.intensity, row.achieved_tflops, row])})),
    {name: "attainable", type: "line", showSymbol: false, lineStyle: {type: "dashed"}, itemStyle: {color: palette[5]}, data: roof(points)}],
  }, {description: `Roofline of the kernels of rank ${member}`})), plainTable("roofline", {limit: 100}));
}

function histogram(name, missing, description) {
  const list = [...view(name)].sort((a, b) => a.lower_ns - b.lower_ns);
  if (list.length === 0) return absent(missing, record.cuda);
  return chart({tooltip: {trigger: "axis", valueFormatter: count}, xAxis: {type: "category", data: list.map((row) => duration(row.lower_ns)), name: "latency, from", nameLocation: "middle", nameGap: 28},
    yAxis: {type: "value", name: "kernels", axisLabel: {formatter: count}}, series: [{type: "bar", data: list.map((row) => row.count)}]}, {height: 260, description});
}

function latency() {
  const times = histogram("launch_latency", "no kernel with its launching call was recorded.", "Launch latency histogram");
  if (isAbsent(times) && rows("launch_storm").length === 0) return times;
  return node("div", {}, times, node("h3", {}, "Storms of short launches"),
    plainTable("launch_storm", {limit: 40, list: rows("launch_storm").filter((row) => row.storm), empty: "No rank launches so many short kernels that launching limits it."}));
}

function concurrency() {
  const list = view("stream_concurrency");
  if (list.length === 0) return absent("no GPU activity was recorded.", record.cuda);
  const levels = [...new Set(list.map((row) => row.busy_streams))].sort((a, b) => a - b);
  const sums = sumBy(list, "busy_streams", "duration_ns");
  const whole = [...sums.values()].reduce((sum, one) => sum + one.duration_ns, 0);
  return chart({tooltip: {trigger: "axis", valueFormatter: (v) => `${significant(v, 3)}%`}, xAxis: {type: "category", name: "streams busy at once", nameLocation: "middle", nameGap: 28, data: levels.map(String)},
    yAxis: {type: "value", name: "share of time", axisLabel: {formatter: "{value}%"}}, series: [{type: "bar", data: levels.map((level) => 100 * sums.get(level).duration_ns / whole)}]},
  {height: 240, description: "Share of time by the number of streams that are busy"});
}

function idle() {
  const list = view("idle_causes");
  if (list.length === 0) return absent("no GPU was idle between its activities.");
  const causes = [...new Set(list.map((row) => row.cause))];
  const members = [...new Set(list.map((row) => row.trace_rank))].sort((a, b) => a - b);
  const field = Object.keys(list[0]).find((name) => name === "total_ns" || name === "duration_ns");
  const cell = new Map(list.map((row) => [`${row.trace_rank} ${row.cause}`, row[field]]));
  return node("div", {}, chart({...rankAxis(members), legend: {}, tooltip: {trigger: "axis", valueFormatter: duration},
    yAxis: {type: "value", name: "idle time", axisLabel: {formatter: duration}},
    series: causes.map((cause) => ({name: heading(cause), type: "bar", stack: "all", data: members.map((member) => cell.get(`${member} ${cause}`) ?? 0)}))},
  {height: 300, description: "Idle time of every GPU by cause"}), node("h3", {}, "Longest gaps"), plainTable("idle_gaps", {limit: 40, list: view("idle_gaps")}));
}

function host() {
  const barriers = view("barriers");
  const sums = barriers.map((row) => ({...row, name: `${heading(row.kind)}: ${row.name}`}));
  const recordedOnly = [["thread_cores", "Cores of the threads"], ["call_stacks", "Who makes slow CUDA calls"], ["library_calls", "Calls into cuBLAS and cuDNN"], ["gpu_memory_summary", "Memory allocated"]]
    .filter(([table]) => view(table).length > 0).flatMap(([table, title]) => [node("h3", {}, title), plainTable(table, {limit: 40})]);
  return node("div", {}, sums.length === 0 ? node("p", {class: "note"}, "No call that waits for the GPU was recorded.") : sortableTable([{name: "name", text: true}, {name: "count"},
    {name: "total_ns", title: "total", unit: "ns"}], sums, {label: "Barriers between CPU and GPU", limit: 30}), node("h3", {}, "Copies and sets"),
  plainTable("memory_transfers", {limit: 40, empty: "No copy or set was recorded."}), node("h3", {}, "Memory, streams and events made and freed"),
  plainTable("allocations", {limit: 40, empty: "No call that makes or frees memory, streams or events was recorded."}), node("h3", {}, "Where CPU samples found the threads"),
  plainTable("cpu_functions", {limit: 40, empty: "No CPU samples were recorded (--sample=process-tree)."}), node("h3", {}, "CUDA calls that did not return success"),
  plainTable("cuda_errors", {limit: 40, empty: rows("cuda_api").length === 0 ? "No CUDA call was recorded." : "Every CUDA call returned success."}), node("h3", {}, "The profiler's own time"),
  plainTable("profiler_overhead", {limit: 40, empty: "No overhead of the profiler was recorded."}), ...recordedOnly);
}

// How much of the kernel time could be brought to launching calls and ranges.
function coverage() {
  return rows("nvtx_coverage").length === 0 ? absent("no kernel was recorded.", record.cuda) : plainTable("nvtx_coverage", {limit: 40});
}

function phases() {
  const list = view("phases");
  if (list.length === 0) return absent("no NVTX range names a step, prefill, decode, forward, backward or optimizer; --phase-map FILE names others.", record.cuda);
  const names = [...new Set(list.map((row) => row.phase))];
  const members = [...new Set(list.map((row) => row.trace_rank))].sort((a, b) => a - b);
  const cell = new Map(list.map((row) => [`${row.trace_rank} ${row.phase}`, row.projected_ns]));
  return node("div", {}, chart({...rankAxis(members), legend: {}, tooltip: {trigger: "axis", valueFormatter: duration},
    yAxis: {type: "value", name: "GPU time", axisLabel: {formatter: duration}}, series: names.map((name) => ({name: heading(name), type: "bar", data: members.map((member) => cell.get(`${member} ${name}`) ?? 0)}))},
  {height: 300, description: "GPU time of every phase by rank"}), plainTable("phases", {limit: 60}));
}

export const analyses = [
  {id: "bandwidth", title: "Bandwidth", note: "Wait-free bus bandwidth by message size (from the latest enter to the exit), GB = 1e9.", build: bandwidth},
  {id: "slack", title: "Slack of collectives", note: "How much longer a collective could take, at most, before any compute begins later, and the bus bandwidth, at least, at which nine of ten delay nothing.", build: slack},
  {id: "step-budget", title: "A step", note: "Every nanosecond of a rank once, over all steps; launch-paced: the host had not launched what ran next.", build: stepBudget},
  {id: "nvlink", title: "NVLink", note: "Counters of nsys' GPU metrics during and outside of collectives.", build: nvlink},
  {id: "kernels", title: "Kernels", note: "The longest-running kernels, added up from the left, with the share that they reach; communication is striped.", build: kernels},
  {id: "strips", title: "The same kernel on all ranks", note: "Median duration on each rank against the median of its peers.", build: kernelStrips},
  {id: "categories", title: "Categories", note: "GPU time by kind of kernel, no moment counted twice.", build: categories},
  {id: "utilisation", title: "GPU over time", note: "What the GPU of one rank did in each span of its window.", build: utilisation},
  {id: "roofline", title: "Roofline", note: "Achieved against the GPU's peaks: by the trace's own GPU metrics, or by Nsight Compute.", build: roofline},
  {id: "latency", title: "Launch latency", note: "From the launch call's start to the kernel's start, over all ranks.", build: latency},
  {id: "concurrency", title: "Streams at once", note: "How many streams of a GPU were busy at the same time, over all ranks.", build: concurrency},
  {id: "idle", title: "Idle GPUs", note: "Gaps between GPU activities, by why the GPU had nothing to do.", build: idle},
  {id: "host", title: "Host and copies", note: "Calls in which the host waited for the GPU, and memory operations.", build: host},
  {id: "phases", title: "Phases", note: "NVTX ranges that name steps, prefill, decode, forward, backward or optimizer, projected onto the GPU.", build: phases},
  {id: "coverage", title: "NVTX coverage", note: "How much of the kernel time has a launching call and lies inside ranges.", build: coverage},
];
