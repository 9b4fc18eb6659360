import {chart, palette} from "../charts.js";
import {collectives, identity, late, rows} from "../data.js";
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

function draw(one) {
  const uncertainty = one.skew_uncertainty_ns >= 0 ? one.skew_uncertainty_ns : 0;
  const arrivals = [...one.arrivals].sort((a, b) => a.enter_ns - b.enter_ns);
  const first = arrivals[0].enter_ns;
  const names = arrivals.map((arrival) => String(arrival.trace_rank));
  const option = {
    grid: {left: 64}, legend: {data: ["waits", "transfers"]}, tooltip: {trigger: "axis", axisPointer: {type: "shadow"},
      valueFormatter: (value) => duration(value)},
    xAxis: {type: "value", name: "after the first", axisLabel: {formatter: (value) => duration(value)}},
    yAxis: {type: "category", data: names, inverse: true, name: "trace rank"},
    series: [
      {name: "before", type: "bar", stack: "time", silent: true, itemStyle: {color: "transparent"}, tooltip: {show: false},
        data: arrivals.map((arrival) => arrival.enter_ns - first)},
      {name: "waits", type: "bar", stack: "time", itemStyle: {color: palette[1]}, data: arrivals.map((arrival) => arrival.wait_ns),
        markLine: {symbol: "none", silent: true, label: {show: false}, lineStyle: {type: "dashed", color: palette[5]},
          data: [{xAxis: one.last_enter_ns - first - uncertainty}, {xAxis: one.last_enter_ns - first + uncertainty}]}},
      {name: "transfers", type: "bar", stack: "time", itemStyle: {color: palette[0]},
        data: arrivals.map((arrival) => Math.max(0, arrival.exit_ns - arrival.enter_ns - arrival.wait_ns))},
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
      ` (dashed lines: one standard uncertainty of the last arrival). Waiting in all: ${duration(one.wait_ns)}.` +
      (one.left_out > 0 ? ` ${count(one.left_out)} arrivals between the earliest and the latest are only in the store.` : "")),
    chart(option, {height: Math.max(180, 60 + 16 * arrivals.length), description: `Arrivals of collective ${one.instance} by trace rank`}),
    sortableTable(columns, arrivals, {label: "Arrivals", marked: (row) => late.has(row.trace_rank)}),
    divergence(one));
}

// What the late rank did differently before it came, as far as the run looked into it.
function divergence(one) {
  const differences = rows("straggler_differences").filter((row) => row.instance === one.instance || row.trace_rank === one.last_trace_rank);
  if (differences.length === 0) {
    return node("p", {class: "empty"}, "What the last one did differently before this collective was not looked into: it is not among the late ranks' cases.");
  }
  const columns = Object.keys(differences[0]).map((name) => ({name, text: typeof differences[0][name] === "string",
    unit: name.endsWith("_ns") ? "ns" : ""}));
  return node("div", {}, node("h3", {}, "What it did differently from a median peer"),
    sortableTable(columns, differences, {label: "Differences", limit: 60}));
}
