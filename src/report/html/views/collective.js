import {absent, record} from "../absent.js";
import {chart, palette} from "../charts.js";
import {style} from "../colours.js";
import {collectives, identity, late, report, stragglers} from "../data.js";
import {bytes, count, duration, heading, node} from "../format.js";
import {sortableTable} from "../table.js";
import {goTo} from "../navigate.js";
import {casesOf, longWaits, sideBySide, stragglerCases, tellingCaseOf} from "./divergence.js";

// One collective: who came when, who was waited for, and what the late one did before.

const byInstance = new Map(collectives.map((one) => [one.instance, one]));
const panel = node("div", {"aria-live": "polite"});

// Most of the costliest ones that the list names; any that the page holds is found through the heat map.
const listed = 60;

export function holdsCollective(instance) {
  return byInstance.has(instance);
}

function choice(one) {
  return node("option", {value: one.instance}, `instance ${one.instance}: ${heading(one.operation)} at ${duration(one.last_enter_ns)}, ${duration(one.wait_ns)} waited`);
}

function group(label, members) {
  return members.length === 0 ? null : node("optgroup", {label}, members.map(choice));
}

const select = node("select", {id: "collective-choice", "aria-label": "Collective", onchange: () => showCollective(Number(select.value), false)});
const elsewhere = node("optgroup", {label: "Chosen elsewhere"});

function known(cases) {
  return [...new Set(cases.map((row) => row.instance))].map((instance) => byInstance.get(instance)).filter((one) => one);
}

export function collectivePanel() {
  if (collectives.length === 0) return absent("no collective was matched between ranks.", record.everyRank);
  const costliest = [...collectives].sort((a, b) => b.wait_ns - a.wait_ns || a.instance - b.instance).slice(0, listed);
  const delayed = known(stragglerCases), long = known(longWaits);
  select.append(...[group("Delayed by late ranks, looked into", delayed), group("Single long waits, looked into", long),
    group("Most waiting", costliest)].filter((one) => one));
  const telling = stragglers.map((one) => tellingCaseOf(one.trace_rank)).find((row) => row !== null && byInstance.has(row.instance));
  const first = telling ? byInstance.get(telling.instance) : long[0] ?? costliest[0];
  select.value = first.instance;
  draw(first);
  return node("div", {}, node("div", {class: "controls"}, select,
    node("span", {class: "note"}, telling ? "first shown: the delayed one that tells most of the first late rank"
      : long.length > 0 ? "first shown: the longest wait that was looked into" : "first shown: the one with the most waiting",
      `; the page holds ${count(collectives.length)} of ${count(report.collectives.instances)}, all are in store.h5`)), panel);
}

// `remark` is said above it: how it came to be chosen.
export function showCollective(instance, scroll = true, remark = "") {
  const one = byInstance.get(instance);
  if (!one) return;
  if (scroll) goTo("collective");
  elsewhere.remove();
  if (![...select.options].some((option) => Number(option.value) === instance)) {
    elsewhere.replaceChildren(choice(one));
    select.append(elsewhere);
  }
  select.value = instance;
  draw(one, remark);
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

function arrivalChart(one, arrivals) {
  const uncertainty = one.skew_uncertainty_ns >= 0 ? one.skew_uncertainty_ns : 0;
  const first = arrivals[0].enter_ns;
  const option = {
    grid: {left: 76, bottom: 52}, legend: {data: ["waits", "transfers", "uncertainty of its clock"]}, tooltip: {trigger: "axis", axisPointer: {type: "shadow"},
      valueFormatter: (value) => duration(value)},
    xAxis: {type: "value", min: ({min}) => Math.min(0, min), name: "time after the first enter", nameLocation: "middle", nameGap: 30,
      axisLabel: {formatter: (value) => duration(value)}},
    yAxis: {type: "category", data: arrivals.map((arrival) => String(arrival.trace_rank)), inverse: true, name: "rank", nameLocation: "start",
      axisLabel: {interval: (index, name) => index % (arrivals.length > 36 ? 2 : 1) === 0 || late.has(Number(name)), color: (name) => style(late.has(Number(name)) ? "--bad" : "--text")}},
    series: [
      {name: "before", type: "bar", stack: "time", silent: true, itemStyle: {color: "transparent"}, tooltip: {show: false},
        data: arrivals.map((arrival) => arrival.enter_ns - first)},
      {name: "waits", type: "bar", stack: "time", itemStyle: {color: palette[1]}, data: arrivals.map((arrival) => arrival.wait_ns),
        markPoint: one.resolved ? {silent: true, symbol: "circle", symbolSize: 1, label: {position: "left", color: style("--bad"), formatter: "the others wait for it"},
          data: [{coord: [one.last_enter_ns - first, String(one.last_trace_rank)]}]} : undefined,
        markLine: {symbol: "none", silent: true, label: {show: false}, lineStyle: {type: "dashed", color: palette[5]},
          data: [{xAxis: one.last_enter_ns - first - uncertainty}, {xAxis: one.last_enter_ns - first + uncertainty}]}},
      {name: "transfers", type: "bar", stack: "time", itemStyle: {color: palette[0]},
        data: arrivals.map((arrival) => arrival.transfer_ns)},
      {name: "uncertainty of its clock", type: "custom", renderItem: uncertaintyBar, silent: true, tooltip: {show: false}, encode: {x: [0, 1], y: 2}, clip: true,
        itemStyle: {color: style("--text")}, data: arrivals.map((arrival, place) => {
          const sigma = uncertaintyOf.get(identity.get(arrival.trace_rank)?.path) ?? 0;
          return [arrival.enter_ns - first - sigma, arrival.enter_ns - first + sigma, place];
        })},
    ],
  };
  return chart(option, {height: Math.min(640, Math.max(190, 100 + 16 * arrivals.length)), description: `Arrivals of collective ${one.instance} by rank, with the uncertainty of each clock`});
}

function summary(one) {
  const last = one.last_trace_rank;
  const host = identity.get(last)?.host;
  const uncertainty = one.skew_uncertainty_ns >= 0 ? duration(one.skew_uncertainty_ns) : "unknown";
  return node("p", {}, node("strong", {}, one.resolved ? `Rank ${last}${host ? ` on ${host}` : ""} came last`
    : "Who came last cannot be told: the last arrivals are closer than the clocks"),
  `, ${duration(one.last_enter_ns - one.first_enter_ns)} after the first (uncertainty ${uncertainty}); the others waited ${duration(one.wait_ns)} in all. ` +
    `Instance ${one.instance} is number ${one.sequence} of communicator ${one.communicator}: ${heading(one.operation)}${one.bytes >= 0 ? ` of ${bytes(one.bytes)}` : ""} among ${count(one.members)} members. ` +
    "Bars at the enters: one standard uncertainty of each clock; dashed lines: of the last arrival against the one before." +
    (one.left_out > 0 ? ` ${count(one.left_out)} arrivals between the earliest and the latest are only in the store.` : ""));
}

function draw(one, remark = "") {
  const arrivals = [...one.arrivals].sort((a, b) => a.enter_ns - b.enter_ns || a.trace_rank - b.trace_rank);
  const columns = [{name: "trace_rank", title: "rank"}, {name: "after_ns", title: "enter after the first", unit: "ns"},
    {name: "wait_ns", title: "wait", unit: "ns"}, {name: "transfer_ns", title: "transfer", unit: "ns"},
    {name: "own_lateness_ns", title: "own lateness", unit: "ns"}, {name: "inherited_lateness_ns", title: "inherited lateness", unit: "ns"}];
  const rows = arrivals.map((arrival) => ({...arrival, after_ns: arrival.enter_ns - one.first_enter_ns}));
  panel.replaceChildren(...[remark ? node("p", {class: "note"}, remark) : null, summary(one), arrivalChart(one, arrivals), ...divergence(one),
    node("h3", {}, "Arrivals"), sortableTable(columns, rows, {label: "Arrivals", marked: (row) => late.has(row.trace_rank)})].filter((child) => child));
}

// What the late rank did differently before it came; where nobody looked, the collectives before which somebody did.
function divergence(one) {
  const cases = casesOf(one.instance);
  if (cases.length > 0) return cases.map((row) => sideBySide(row));
  const others = stragglerCases.filter((row) => one.resolved && row.trace_rank === one.last_trace_rank && byInstance.has(row.instance)).slice(0, 6);
  const text = node("p", {class: "note"}, "What the last one did before this collective was not looked into");
  if (others.length > 0) {
    text.append("; before others that it delayed it was: ", ...others.flatMap((row, index) => [index > 0 ? ", " : "",
      node("button", {type: "button", onclick: () => showCollective(row.instance)}, `instance ${row.instance}`)]));
  }
  text.append(".");
  return [text];
}
