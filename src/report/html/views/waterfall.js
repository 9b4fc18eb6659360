import {chart, palette, stripes} from "../charts.js";
import {style} from "../colours.js";
import {ranks} from "../data.js";
import {apart, count, duration, node, percent, short} from "../format.js";
import {sortableTable} from "../table.js";

// Kernels in order of their time, each bar where the one before ends, until they hold a share of all kernel time that the
// reader chooses.

// The page names the kernels with most time; the row without a name is the sum of the others.
const isRest = (row) => row.name === "";
const nameOf = (row) => isRest(row) ? "all others" : row.name;

// Rows with what they and all before them hold, in order.
function added(list) {
  let reached = 0;
  return list.map((row) => ({...row, before_ns: reached, reached_ns: reached += row.total_ns}));
}

// "8 ranks", or "9 of 1,024 ranks" where the page holds the kernels of some only.
const whose = ([{trace_ranks: summed}]) => summed < ranks.length ? `${count(summed)} of ${count(ranks.length)} ranks` : `${count(summed)} ${summed === 1 ? "rank" : "ranks"}`;

function bars(rows, whole) {
  return chart(() => ({
    grid: {left: 330, right: 60}, tooltip: {trigger: "axis", axisPointer: {type: "shadow"}, formatter: (hits) => {
      const row = rows[hits[0].dataIndex];
      return `${short(nameOf(row), 80)}\n${duration(row.total_ns)} (${percent(row.total_ns, whole)}) in ${count(row.count)} executions; with those before ${percent(row.reached_ns, whole)}`;
    }},
    xAxis: {type: "value", max: whole, name: `kernel time, summed over ${whose(rows)}`, nameLocation: "middle", nameGap: 28, axisLabel: {formatter: duration}},
    yAxis: {type: "category", inverse: true, data: apart(rows.map(nameOf), 46)},
    series: [{type: "bar", stack: "sum", silent: true, itemStyle: {color: "transparent"}, data: rows.map((row) => row.before_ns)},
      {type: "bar", stack: "sum", label: {show: true, position: "right", color: style("--text"), formatter: ({dataIndex}) => percent(rows[dataIndex].reached_ns, whole)},
        data: rows.map((row) => ({value: row.total_ns, itemStyle: isRest(row) ? {color: palette[5]} : row.communication ? {color: palette[1], decal: stripes} : {color: palette[0]}}))}],
  }), {height: 60 + 22 * rows.length, description: `Time of ${count(rows.length)} kernels over ${whose(rows)}, added up from the longest-running`});
}

export function waterfall(list) {
  const rows = added(list);
  const whole = rows.at(-1).reached_ns;
  const named = rows.filter((row) => !isRest(row)).length;
  const place = node("div");
  const told = node("output", {"aria-live": "polite"});
  const draw = () => {
    const wanted = Number(share.value) / 100 * whole;
    const needed = Math.min(rows.length, rows.findIndex((row) => row.reached_ns >= wanted * (1 - 1e-12)) + 1);
    const held = rows[needed - 1];
    told.textContent = `${share.value}%: ${isRest(held) ? `more than ${count(named)}` : count(needed)} of ${named < rows.length ? `more than ${count(named)}` : count(named)} kernels hold ${percent(held.reached_ns, whole)} of ${duration(whole)} on ${whose(rows)}`;
    const left = rows.slice(needed);
    place.replaceChildren(bars(left.length === 0 ? rows : [...rows.slice(0, needed), {name: "", communication: 0, total_ns: whole - held.reached_ns,
      count: left.reduce((sum, row) => sum + row.count, 0), before_ns: held.reached_ns, reached_ns: whole}], whole));
  };
  const share = node("input", {type: "range", min: 50, max: 100, step: 1, value: 90, "aria-label": "Share of kernel time that the kernels shown hold, in percent", oninput: draw});
  draw();
  const table = node("details", {class: "finding"}, node("summary", {}, "As a table"), sortableTable([{name: "name", text: true, show: nameOf}, {name: "count"},
    {name: "total_ns", title: "total", unit: "ns"}, {name: "share", show: (row) => percent(row.total_ns, whole)},
    {name: "reached_ns", title: "added up", show: (row) => percent(row.reached_ns, whole)}], rows, {label: "Kernels added up"}));
  return node("div", {}, node("div", {class: "controls"}, node("label", {}, "Kernels until ", share), told), place, table);
}
