import {chart, palette, style} from "../charts.js";
import {collectives, identity, late, report, view} from "../data.js";
import {bytes, count, duration, node} from "../format.js";
import {sortableTable} from "../table.js";

// One collective: who came when, who was waited for, and what the late one did before.
const panel = node("div", {"aria-live": "polite"});

export function collectivePanel() {
  if (collectives.length === 0) return node("p", {class: "empty"}, "No collectives were matched.");
  const costliest = [...collectives].sort((a, b) => waits(b) - waits(a) || a.instance - b.instance)[0];
  const select = node("select", {id: "collective-choice", "aria-label": "Collective", onchange: () => showCollective(Number(select.value))},
    collectives.map((one) => node("option", {value: one.instance},
      `instance ${one.instance}: ${one.operation} at ${duration(one.last_enter_ns)}, ${duration(waits(one))} waited`)));
  select.value = costliest.instance;
  draw(costliest);
  return node("div", {}, node("div", {class: "controls"}, select,
    node("span", {class: "note"}, "the costliest collective of every span of time; all others are in the store")), panel);
}

function waits(one) {
  return one.wait_ns;
}

export function showCollective(instance) {
  const one = collectives.find((candidate) => candidate.instance === instance);
  if (!one) return;
  const select = document.getElementById("collective-choice");
  if (select) select.value = instance;
  draw(one);
  document.getElementById("collective").scrollIntoView();
}

// Standard uncertainty of a trace rank's clock on the job clock; 0 where it is the reference or nobody knows.
const uncertaintyOf = new Map((report.clock.sessions ?? []).map((session) => [session.path, session.uncertainty_ns ?? 0]));

// From one standard uncertainty before to one after, with a stroke at either end.
function uncertaintyBar(params, api) {
  const [from, to] = [api.coord([api.value(0), api.value(2)]), api.coord([api.value(1), api.value(2)])];
  const half = Math.min(6, api.size([0, 1])[1] / 3);
  const line = (x1, y1, x2, y2) => ({type: "line", shape: {x1, y1, x2, y2}, style: {stroke: style("--text"), lineWidth: 1.5}});
  return {type: "group", children: [line(from[0], from[1], to[0], to[1]), line(from[0], from[1] - half, from[0], from[1] + half),
    line(to[0], to[1] - half, to[0], to[1] + half)]};
}

function draw(one) {
  const uncertainty = one.skew_uncertainty_ns >= 0 ? one.skew_uncertainty_ns : 0;
  const arrivals = [...one.arrivals].sort((a, b) => a.enter_ns - b.enter_ns);
  const first = arrivals[0].enter_ns;
  const names = arrivals.map((arrival) => String(arrival.trace_rank));
  const option = {
    grid: {left: 64}, legend: {data: ["waits", "transfers", "uncertainty"]}, tooltip: {trigger: "axis", axisPointer: {type: "shadow"},
      valueFormatter: (value) => duration(value)},
    xAxis: {type: "value", min: ({min}) => Math.min(0, min), name: "after the first", axisLabel: {formatter: (value) => duration(value)}},
    yAxis: {type: "category", data: names, inverse: true, name: "trace rank", nameLocation: "start"},
    series: [
      {name: "before", type: "bar", stack: "time", silent: true, itemStyle: {color: "transparent"}, tooltip: {show: false},
        data: arrivals.map((arrival) => arrival.enter_ns - first)},
      {name: "waits", type: "bar", stack: "time", itemStyle: {color: palette[1]}, data: arrivals.map((arrival) => arrival.wait_ns),
        markLine: {symbol: "none", silent: true, label: {show: false}, lineStyle: {type: "dashed", color: palette[5]},
          data: [{xAxis: one.last_enter_ns - first - uncertainty}, {xAxis: one.last_enter_ns - first + uncertainty}]}},
      {name: "transfers", type: "bar", stack: "time", itemStyle: {color: palette[0]},
        data: arrivals.map((arrival) => Math.max(0, arrival.exit_ns - arrival.enter_ns - arrival.wait_ns))},
      {name: "uncertainty", type: "custom", renderItem: uncertaintyBar, silent: true, tooltip: {show: false}, encode: {x: [0, 1], y: 2}, clip: true,
        itemStyle: {color: style("--text")}, data: arrivals.map((arrival, place) => {
          const known = uncertaintyOf.get(identity.get(arrival.trace_rank)?.path) ?? 0;
          return [arrival.enter_ns - first - known, arrival.enter_ns - first + known, place];
        })},
    ],
  };
  const last = one.last_trace_rank;
  const host = identity.get(last)?.host;
  const columns = [{name: "trace_rank", title: "rank"}, {name: "enter_ns", title: "enter", unit: "ns"},
    {name: "wait_ns", title: "wait", unit: "ns"}, {name: "transfer_ns", title: "transfer", unit: "ns"},
    {name: "own_lateness_ns", title: "own lateness", unit: "ns"}, {name: "inherited_lateness_ns", title: "inherited", unit: "ns"}];
  panel.replaceChildren(
    node("p", {}, `Instance ${one.instance}, number ${one.sequence} of communicator ${one.communicator}: ${one.operation}` +
      ` of ${bytes(one.bytes)} among ${count(one.members)} members. `, node("strong", {}, one.resolved
      ? `Trace rank ${last}${host ? ` on ${host}` : ""} came last`
      : `Who came last cannot be told: the arrivals are closer than the clocks`),
    `; arrival skew ${duration(one.last_enter_ns - one.first_enter_ns)}, uncertainty ${uncertainty > 0 ? duration(uncertainty) : "unknown"}` +
      ` (bars at the enters: one standard uncertainty of each clock; dashed lines: of the last arrival against the one before). Waiting in all: ${duration(one.wait_ns)}.` +
      (one.left_out > 0 ? ` ${count(one.left_out)} arrivals between the earliest and the latest are only in the store.` : "")),
    chart(option, {height: Math.max(180, 60 + 16 * arrivals.length), description: `Arrivals of collective ${one.instance} by trace rank`}),
    sortableTable(columns, arrivals, {label: "Arrivals", marked: (row) => late.has(row.trace_rank)}),
    divergence(one));
}

// What the late rank did differently before it came, as far as the run looked into it.
function divergence(one) {
  const differences = view("straggler_differences").filter((row) => row.instance === one.instance || row.trace_rank === one.last_trace_rank);
  if (differences.length === 0) {
    return node("p", {class: "empty"}, "What the last one did differently before this collective was not looked into: it is not among the late ranks' cases.");
  }
  const columns = Object.keys(differences[0]).map((name) => ({name, text: typeof differences[0][name] === "string",
    unit: name.endsWith("_ns") ? "ns" : ""}));
  return node("div", {}, node("h3", {}, "What it did differently from a median peer"),
    sortableTable(columns, differences, {label: "Differences", limit: 60}));
}
