// Rank x rank: whose delays cost whom how much, and who sends how much to whom.

import {absent, record} from "../absent.js";
import {chart} from "../charts.js";
import {onThemeChange, ramp} from "../colours.js";
import {identity, late, ranks, view} from "../data.js";
import {bytes, count, duration, node, percent} from "../format.js";

// cells: [column, row, amount] by name; colours by the root of the amount.
function matrixChart({cells, columns, rows, columnTitle, rowTitle, show, tell, description}) {
  const most = Math.max(...cells.map(([, , amount]) => amount));
  const columnAt = new Map(columns.map((name, index) => [name, index])), rowAt = new Map(rows.map((name, index) => [name, index]));
  const long = Math.max(...rows.map((name) => name.length));
  const legend = node("span", {class: "legend"});
  const paint = () => { legend.style.background = `linear-gradient(to right, ${ramp().join(", ")})`; };
  paint();
  onThemeChange(paint);
  return node("div", {}, node("p", {class: "scale"}, "0", legend, show(most)), chart(() => ({
    grid: {left: 40 + Math.min(150, 7 * long), right: 20, bottom: 60, top: 16},
    tooltip: {formatter: ({data}) => tell(columns[data[0]], rows[data[1]], data[3])},
    xAxis: {type: "category", data: columns, name: columnTitle, nameLocation: "middle", nameGap: 34, splitArea: {show: false}},
    yAxis: {type: "category", data: rows, inverse: true, name: rowTitle, nameLocation: "middle", nameGap: 16 + Math.min(150, 7 * long)},
    visualMap: {show: false, min: 0, max: Math.sqrt(most), dimension: 2, inRange: {color: ramp()}},
    series: [{type: "heatmap", progressive: 0, itemStyle: {borderWidth: 0},
      data: cells.map(([column, row, amount]) => [columnAt.get(column), rowAt.get(row), Math.sqrt(amount), amount])}],
  }), {height: Math.min(760, 150 + Math.max(10, Math.min(22, 560 / rows.length)) * rows.length), description}));
}

const inOrder = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);

const nobody = "nobody's";
const mostRows = 48;

// The rows of the trace ranks whose delays cost most, and the others as one.
function waitRows(cells) {
  const costs = new Map();
  for (const cell of cells) costs.set(cell.late_trace_rank, (costs.get(cell.late_trace_rank) ?? 0) + cell.cost_ns);
  costs.delete(-1);
  const costliest = [...costs].sort((a, b) => late.has(b[0]) - late.has(a[0]) || b[1] - a[1] || a[0] - b[0]);
  if (costliest.length <= mostRows) return {kept: new Set(costs.keys()), others: null};
  return {kept: new Set(costliest.slice(0, mostRows).map(([rank]) => rank)), others: `${count(costliest.length - mostRows)} others`};
}

export function waitMatrix() {
  const cells = view("wait_matrix");
  if (cells.length === 0) return absent("no collective was matched between ranks, or nobody waited in one.", ranks.length < 2 ? record.everyRank : null);
  // Of a large job the columns are whole nodes, by the lowest trace rank of each.
  const byNode = ranks.length > 128;
  const {kept, others} = waitRows(cells);
  const whose = (rank) => rank < 0 ? nobody : !kept.has(rank) ? others : `${rank}${late.has(rank) ? " (late)" : ""}`;
  const whoWaits = (rank) => byNode ? identity.get(rank)?.host || String(rank) : String(rank);
  const sums = new Map();
  for (const cell of cells) {
    const key = `${whose(cell.late_trace_rank)}\n${whoWaits(cell.waiting_trace_rank)}`;
    const sum = sums.get(key) ?? [whoWaits(cell.waiting_trace_rank), whose(cell.late_trace_rank), 0];
    sum[2] += cell.cost_ns;
    sums.set(key, sum);
  }
  const shown = cells.reduce((sum, cell) => sum + cell.cost_ns, 0);
  const whole = ranks.reduce((sum, rank) => sum + rank.wait_ns, 0);
  return node("div", {}, matrixChart({
    cells: [...sums.values()], columns: inOrder(cells.map((cell) => cell.waiting_trace_rank)).map(whoWaits),
    rows: [...(cells.some((cell) => cell.late_trace_rank < 0) ? [nobody] : []), ...inOrder([...kept]).map(whose), ...(others ? [others] : [])],
    columnTitle: byNode ? "who waited (all ranks of a node)" : "who waited (rank)", rowTitle: "whose delay", show: duration,
    tell: (column, row, amount) => row === nobody ? `${column} waited ${duration(amount)} for which no delay was found`
      : `Delays of ${row === others ? others : `rank ${row}`} cost ${column} ${duration(amount)} of waiting`,
    description: "Whose delays cost whom how much waiting",
  }), node("p", {class: "note"}, "Nobody's is waiting that no delay explains: structure (a pipeline's bubble), slow transfers, or below the clocks' resolution. " +
    "Colours follow the square root, so that small cells are seen beside large ones." +
    (shown < whole ? ` The ${count(cells.length)} largest cells are shown, ${percent(shown, whole)} of all waiting; the others are in store.h5.` : "")));
}

export function byteMatrix() {
  const cells = view("byte_matrix").map((cell) => ({...cell, bytes: Math.max(cell.sent_bytes, cell.received_bytes)})).filter((cell) => cell.bytes > 0);
  if (cells.length === 0) return absent("no send or receive with a recorded size has its peer among the traces.", record.payload);
  return matrixChart({
    cells: cells.map((cell) => [String(cell.destination), String(cell.source), cell.bytes]),
    columns: inOrder(cells.map((cell) => cell.destination)).map(String), rows: inOrder(cells.map((cell) => cell.source)).map(String),
    columnTitle: "to rank", rowTitle: "from rank", show: bytes,
    tell: (column, row, amount) => `Rank ${row} sent ${bytes(amount)} to ${column}`, description: "Bytes sent from rank to rank",
  });
}
