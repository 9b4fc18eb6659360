import {absent, record} from "../absent.js";
import {palette} from "../charts.js";
import {onThemeChange, style} from "../colours.js";
import {identity, laneRows, lanes, late, ranks, report, steps} from "../data.js";
import {count, duration, node, rough, roundTicks, short} from "../format.js";

// Every rank in one step, a row each, nodes together: compute, waiting, exposed transfers, and nothing. As many boxes as
// the page holds bins, neighbours alike as one.

const parts = [
  {name: ranks.some((rank) => rank.opaque_graph_ns > 0) ? "compute, copies, or graphs recorded as one interval" : "compute or copies", of: (cell) => cell >> 4, colour: palette[0], pattern: "plain"},
  {name: "waits for who comes late", of: (cell) => (cell >> 2) & 3, colour: palette[3], pattern: "stripes"},
  {name: "exposed communication", of: (cell) => cell & 3, colour: palette[1], pattern: "dots"},
];
const idle = "nothing on the GPU (blank)";

// In pixels.
const [gutter, axisHeight, nodeHeight, lateHeight] = [140, 22, 18, 12];
const rowHeightOf = (rows) => Math.max(3, Math.min(18, Math.floor(560 / rows)));
const leastLabelled = 11;  // height of a row that gets its number
const font = "11px system-ui, sans-serif";

// A fill that is told from the others without its colour.
function fill(context, {colour, pattern}) {
  if (pattern === "plain") return colour;
  const tile = node("canvas", {width: 6, height: 6});
  const pen = tile.getContext("2d");
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = pen.fillStyle = "rgba(255, 255, 255, 0.75)";
  if (pattern === "dots") pen.fillRect(2, 2, 2, 2);
  else {
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const x of [-6, 0, 6]) {
      pen.moveTo(x - 1, 7);
      pen.lineTo(x + 7, -1);
    }
    pen.stroke();
  }
  return context.createPattern(tile, "repeat");
}

function swatch(part) {
  const canvas = node("canvas", {width: 16, height: 12, "aria-hidden": "true"});
  const context = canvas.getContext("2d");
  context.fillStyle = fill(context, part);
  context.fillRect(0, 0, 16, 12);
  return canvas;
}

// Rows from top to bottom: nodes, each with its ranks. Where rows are thin, the node's name stands beside them; late ranks
// are never thin.
function layOut() {
  const hosts = new Map();
  lanes.ranks.forEach((rank, index) => {
    const host = identity.get(rank)?.host || "unknown node";
    hosts.set(host, [...(hosts.get(host) ?? []), {rank, index}]);
  });
  const usual = rowHeightOf(lanes.ranks.length);
  const rows = [], heads = [];
  let y = axisHeight;
  for (const [host, members] of hosts) {
    heads.push({y: y + nodeHeight / 2, host});
    const end = y + nodeHeight;
    if (usual >= leastLabelled) y = end;
    for (const member of members) {
      const height = late.has(member.rank) ? Math.max(usual, lateHeight) : usual;
      rows.push({y, height, ...member});
      y += height;
    }
    y = Math.max(y, end) + 3;
  }
  return {rows, heads, whole: y + 2};
}

// Thirds of a cell in words.
function told(cell) {
  const held = parts.map((part) => [part.of(cell), part.name]).filter(([thirds]) => thirds > 0);
  if (held.length === 0) return "nothing on the GPU";
  return held.map(([thirds, name]) => thirds === 3 ? name : `${name} in about ${thirds === 1 ? "one third" : "two thirds"} of the time`).join(", ");
}

function drawing(tell) {
  const {rows, heads, whole} = layOut();
  const canvas = node("canvas", {tabindex: 0, role: "application", style: `height:${whole}px`,
    "aria-label": "What every rank did in one step. Left and right: the step before and the next."});
  let span = null, cells = [];
  const width = () => canvas.clientWidth - gutter - 4;

  function drawRow(context, fills, row) {
    const pixels = width() / lanes.bins;
    let bin = 0;
    for (const [cell, length] of cells[row.index]) {
      let bottom = row.y + row.height - 1;
      parts.forEach((part, i) => {
        const tall = part.of(cell) / 3 * (row.height - 1);
        if (tall === 0) return;
        context.fillStyle = fills[i];
        context.fillRect(gutter + bin * pixels, bottom - tall, Math.max(0.5, length * pixels), tall);
        bottom -= tall;
      });
      bin += length;
    }
    if (!late.has(row.rank)) return;
    context.strokeStyle = style("--bad");
    context.lineWidth = 1.5;
    context.strokeRect(gutter - 0.75, row.y - 0.75, width() + 1.5, row.height + 0.5);
  }

  function drawLabel(context, row) {
    const isLate = late.has(row.rank);
    if (row.height < leastLabelled) return;
    context.fillStyle = style(isLate ? "--bad" : "--muted");
    context.font = isLate ? `bold ${font}` : font;
    context.textAlign = "right";
    context.fillText(isLate ? `late: rank ${row.rank}` : `rank ${row.rank}`, gutter - 6, row.y + row.height / 2);
    context.textAlign = "left";
  }

  function draw() {
    if (span === null || canvas.clientWidth === 0) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, canvas.clientWidth * ratio);
    canvas.height = whole * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.textBaseline = "middle";
    const fills = parts.map((part) => fill(context, part));
    for (const row of rows) drawRow(context, fills, row);
    for (const row of rows) drawLabel(context, row);
    context.font = `bold ${font}`;
    context.fillStyle = style("--text");
    for (const {y, host} of heads) context.fillText(short(host, 12), 4, y);
    drawAxis(context);
    canvas.dataset.drawn = "yes";
  }

  function drawAxis(context) {
    context.font = font;
    context.fillStyle = style("--muted");
    const length = span.end_ns - span.start_ns;
    for (const after of roundTicks(0, length, width() / 110)) {
      const place = gutter + width() * after / length;
      context.textAlign = after === 0 ? "left" : place > gutter + width() - 30 ? "right" : "center";
      context.fillText(after === 0 ? "start" : `+${rough(after)}`, place, axisHeight / 2);
    }
    context.textAlign = "left";
  }

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const row = rows.find((one) => event.clientY - box.top >= one.y && event.clientY - box.top < one.y + one.height);
    let bin = Math.floor((event.clientX - box.left - gutter) / width() * lanes.bins);
    if (!row || bin < 0 || bin >= lanes.bins) return;
    const at = (span.end_ns - span.start_ns) * bin / lanes.bins;
    const run = cells[row.index].find(([, length]) => (bin -= length) < 0);
    tell(`Rank ${row.rank}${late.has(row.rank) ? " (late)" : ""}, ${rough(at)} after the start: ${told(run[0])}.`);
  });
  new ResizeObserver(draw).observe(canvas);
  onThemeChange(draw);
  const firstLate = rows.find(({rank}) => late.has(rank));
  return {canvas, from: firstLate ? Math.max(0, firstLate.y - 240) : 0, show: (next) => { span = next; cells = laneRows(span); draw(); }};
}

const nameOf = (span) => span.step < 0 ? "the whole run" : `step ${span.step}`;

// "0 to 4, 7"
function stepsHeld() {
  const held = lanes.spans.map((span) => span.step);
  const ranges = [];
  for (const step of held) {
    if (ranges.at(-1)?.[1] === step - 1) ranges.at(-1)[1] = step;
    else ranges.push([step, step]);
  }
  return ranges.map(([from, to]) => from === to ? String(from) : `${from} to ${to}`).join(", ");
}

export function rankLanes() {
  if (!lanes) return absent("the run was not replayed, so what every rank did side by side is not known.", ranks.length < 2 ? record.everyRank : null);
  const status = node("output", {"aria-live": "polite"}, "Point at a row for what its rank did.");
  const {canvas, from, show} = drawing((text) => { status.textContent = text; });
  let at = lanes.first;
  const select = node("select", {"aria-label": "Step", onchange: () => go(Number(select.value))},
    lanes.spans.map((span, i) => node("option", {value: i}, `${nameOf(span)}, ${duration(span.end_ns - span.start_ns)}${i === lanes.first && span.step >= 0 ? " (shown first: of the moment below)" : ""}`)));
  const move = (by, text, label) => node("button", {type: "button", "aria-label": label, onclick: () => go(at + by)}, text);
  const [before, next] = [move(-1, "\u2190 previous", "The step before"), move(1, "next \u2192", "The next step")];

  function go(number) {
    at = Math.max(0, Math.min(lanes.spans.length - 1, number));
    select.value = String(at);
    before.disabled = at === 0;
    next.disabled = at === lanes.spans.length - 1;
    show(lanes.spans[at]);
  }
  canvas.addEventListener("keydown", (event) => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!by) return;
    go(at + by);
    event.preventDefault();
  });
  go(at);
  const frame = node("div", {class: "lanes all-ranks"}, canvas);
  requestAnimationFrame(() => { frame.scrollTop = from; });
  const all = steps?.start_ns.length ?? 0;
  return node("div", {}, node("div", {class: "controls"}, lanes.spans.length > 1 ? [before, select, next] : node("span", {}, nameOf(lanes.spans[0])),
    node("span", {class: "kinds"}, parts.map((part) => node("span", {}, swatch(part), part.name)), node("span", {}, idle))),
  frame, status,
  node("p", {class: "note"}, (lanes.spans[0].step < 0 ? "No steps are known. " : lanes.spans.length === all ? `All ${count(all)} steps are here (${stepsHeld()}). `
    : `Of ${count(all || lanes.spans.length)} steps ${lanes.spans.length} are here: ${stepsHeld()}; --perfetto has all. `) +
    `A row has ${count(lanes.bins)} spans of time; the height of a box is its share of the span, in thirds. Rows of short kernels count as busy evenly between the first and the last of them.` +
    (report.clock.smallest_skew_ns === null ? "" : ` Waiting of less than ${duration(report.clock.smallest_skew_ns)} is within what the clocks leave open.`) +
    (late.size > 0 ? " Late ranks are framed." : "")));
}
