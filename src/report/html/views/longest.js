import {absent, record} from "../absent.js";
import {chart, decals, palette} from "../charts.js";
import {moments} from "../data.js";
import {apart, count, duration, node, rough, short} from "../format.js";
import {sortableTable} from "../table.js";

// The operations of the GPU that take longest around a moment, in order of time.

const most = 50;
const colours = {compute: palette[0], communication: palette[1], copy: palette[4], graph: palette[6]};
const patterns = {compute: "plain", communication: "stripes", copy: "dots", graph: "lines"};

function operationsOf(moment) {
  return moment.rows.filter((row) => row.kind === "stream").flatMap((row) => {
    let at = moment.start_ns;
    return row.start.map((delta, i) => ({trace_rank: row.trace_rank, stream: row.track, start_ns: at += delta, duration_ns: row.duration[i],
      name: moments.names.name[row.name[i]], kind: moments.names.kind[row.name[i]]}));
  });
}

// Longest first; of equals the earliest, then that of the lowest rank.
const longestOf = (list) => [...list].sort((a, b) => b.duration_ns - a.duration_ns || a.start_ns - b.start_ns || a.trace_rank - b.trace_rank).slice(0, most)
  .sort((a, b) => a.start_ns - b.start_ns || a.trace_rank - b.trace_rank);

function picture(moment, list) {
  const names = apart(list.map((one) => one.name), 34);
  return chart({
    grid: {left: 330}, tooltip: {trigger: "axis", axisPointer: {type: "shadow"}, formatter: (hits) => {
      const one = list[hits[0].dataIndex];
      return `${short(one.name, 80)}\nrank ${one.trace_rank}, stream ${one.stream}: ${duration(one.duration_ns)}, at ${duration(one.start_ns)} of job time`;
    }},
    xAxis: {type: "value", min: 0, max: moment.end_ns - moment.start_ns, name: `time after ${duration(moment.start_ns)} of job time`, nameLocation: "middle", nameGap: 28, axisLabel: {formatter: rough}},
    yAxis: {type: "category", inverse: true, data: list.map((one, i) => `rank ${one.trace_rank}: ${names[i]}`)},
    series: [{type: "bar", stack: "time", silent: true, itemStyle: {color: "transparent"}, data: list.map((one) => one.start_ns - moment.start_ns)},
      {type: "bar", stack: "time", barMinHeight: 3, data: list.map((one) => ({value: one.duration_ns, itemStyle: {color: colours[one.kind] ?? palette[5], decal: decals[patterns[one.kind]]}}))}],
  }, {height: 70 + 18 * list.length, description: `The ${count(list.length)} longest operations of ${moment.title}, in order of time`});
}

export function longest() {
  const held = moments.list.map((moment) => ({moment, operations: operationsOf(moment)})).filter(({operations}) => operations.length > 0);
  if (held.length === 0) return absent("the traces could not be read again, or no GPU work was recorded.", record.cuda);
  const place = node("div");
  const told = node("output", {"aria-live": "polite"});
  const only = node("input", {type: "checkbox", onchange: () => draw()});
  const select = node("select", {"aria-label": "Moment of the longest operations", onchange: () => draw()}, held.map(({moment}, i) => node("option", {value: i}, moment.title)));
  function draw() {
    const {moment, operations} = held[Number(select.value)];
    const all = only.checked ? operations.filter(({kind}) => kind === "communication") : operations;
    const list = longestOf(all);
    told.textContent = list.length === 0 ? "No communication ran there." : `The longest ${count(list.length)} of ${count(all.length)} operations take ${duration(list.reduce((sum, one) => sum + one.duration_ns, 0))}.` +
      (moment.left_out > 0 ? ` ${count(moment.left_out)} short events farther from the moment are not on this page.` : "");
    const columns = [{name: "trace_rank", title: "rank"}, {name: "stream"}, {name: "kind", text: true}, {name: "name", text: true}, {name: "start_ns", title: "job time", unit: "ns"}, {name: "duration_ns", title: "duration", unit: "ns"}];
    place.replaceChildren(...(list.length === 0 ? [] : [picture(moment, list),
      node("details", {class: "finding"}, node("summary", {}, "As a table"), sortableTable(columns, list, {label: "Longest operations"}))]));
  }
  draw();
  const kinds = Object.keys(colours).filter((kind) => held.some(({operations}) => operations.some((one) => one.kind === kind)));
  return node("div", {}, node("div", {class: "controls"}, select, node("label", {}, only, " communication only"),
    node("span", {class: "kinds"}, kinds.map((kind) => node("span", {}, node("i", {class: `box ${patterns[kind]}`, style: `--part:${colours[kind]}`}), kind)))), told, place);
}
