// Rank x rank: whose delays cost whom how much, and who sends how much to whom.

import {chart} from "../charts.js";
import {ramp} from "../colours.js";
import {identity, late, ranks, view} from "../data.js";
import {bytes, count, duration, node, percent} from "../format.js";

// cells: [column, row, amount] by name; colours by the root of the amount, so that small ones are seen beside large ones.
function matrixChart({cells, columns, rows, columnTitle, rowTitle, show, tell, description}) {
  const most = Math.max(...cells.map(([, , amount]) => amount));
  const columnAt = new Map(columns.map((name, index) => [name, index])), rowAt = new Map(rows.map((name, index) => [name, index]));
  const long = Math.max(...rows.map((name) => name.length));
  return chart(() => ({
    grid: {left: 40 + Math.min(150, 7 * long), right: 120, bottom: 60, top: 16},
    tooltip: {formatter: ({data}) => tell(columns[data[0]], rows[data[1]], data[3])},
    xAxis: {type: "category", data: columns, name: columnTitle, nameLocation: "middle", nameGap: 34, splitArea: {show: false}},
    yAxis: {type: "category", data: rows, inverse: true, name: rowTitle, nameLocation: "middle", nameGap: 16 + Math.min(150, 7 * long)},
    visualMap: {min: 0, max: Math.sqrt(most), right: 0, top: "middle", itemHeight: 180, dimension: 2, calculable: false, inRange: {color: ramp()},
      text: [show(most), "0"], textGap: 6},
    series: [{type: "heatmap", progressive: 0, itemStyle: {borderWidth: 0},
      data: cells.map(([column, row, amount]) => [columnAt.get(column), rowAt.get(row), Math.sqrt(amount), amount])}],
  }), {height: Math.min(760, 150 + Math.max(10, Math.min(22, 560 / rows.length)) * rows.length), description});
}

const inOrder = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);

const nobody = "nobody";

export function waitMatrix() {
  const cells = view("wait_matrix");
  if (cells.length === 0) return node("p", {class: "empty"}, "Nobody waited for anybody: there were no collectives, or no waiting in them.");
  const lateOnes = inOrder(cells.map((cell) => cell.late_trace_rank));
  const waiting = inOrder(cells.map((cell) => cell.waiting_trace_rank));
  // Of a large job the rows hold whole nodes, by the lowest trace rank of each.
  const byNode = ranks.length > 128;
  const whose = (rank) => rank < 0 ? nobody : `${rank}${late.has(rank) ? " (late)" : ""}`;
  const whoWaits = (rank) => byNode ? identity.get(rank)?.host || String(rank) : String(rank);
  const shown = cells.reduce((sum, cell) => sum + cell.cost_ns, 0);
  const whole = ranks.reduce((sum, rank) => sum + rank.wait_ns, 0);
  return node("div", {}, matrixChart({
    cells: cells.map((cell) => [whoWaits(cell.waiting_trace_rank), whose(cell.late_trace_rank), cell.cost_ns]),
    columns: waiting.map(whoWaits), rows: lateOnes.map(whose), columnTitle: byNode ? "who waited (all trace ranks of a node)" : "who waited (trace rank)",
    rowTitle: "whose delay", show: duration,
    tell: (column, row, amount) => row === nobody ? `${column} waited ${duration(amount)} for which no delay was found`
      : `Delays of trace rank ${row} cost ${column} ${duration(amount)} of waiting`,
    description: "Whose delays cost whom how much waiting",
  }), shown < whole ? node("p", {class: "note"}, `The ${count(cells.length)} largest cells, ${percent(shown, whole)} of all waiting; the others are only in the store.`) : null);
}

export function byteMatrix() {
  const cells = view("byte_matrix").map((cell) => ({...cell, bytes: Math.max(cell.sent_bytes, cell.received_bytes)})).filter((cell) => cell.bytes > 0);
  if (cells.length === 0) return node("p", {class: "empty"}, "No send or receive with a recorded peer and size: there is no matrix between ranks.");
  return matrixChart({
    cells: cells.map((cell) => [String(cell.destination), String(cell.source), cell.bytes]),
    columns: inOrder(cells.map((cell) => cell.destination)).map(String), rows: inOrder(cells.map((cell) => cell.source)).map(String),
    columnTitle: "to trace rank", rowTitle: "from trace rank", show: bytes,
    tell: (column, row, amount) => `Trace rank ${row} sent ${bytes(amount)} to ${column}`, description: "Bytes sent from rank to rank",
  });
}
