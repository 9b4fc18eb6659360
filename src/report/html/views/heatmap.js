import {absent, record} from "../absent.js";
import {colour, onThemeChange, ramp} from "../colours.js";
import {collectives, heat, late, report, steps} from "../data.js";
import {count, duration, node, rough, roundTicks} from "../format.js";
import {showCollective} from "./collective.js";

// Rank x time: one pixel block per trace rank and span of time, painted at once, so that a thousand ranks open at once.
const kinds = {wait: "waiting", own: "own lateness"};

// Where trace ranks and times are labelled, in pixels and parts.
const labelHeight = 17;
const timeLabels = 6;

// Labels of rows, with room between them: late trace ranks, neighbours of them together ("40-47"), and others where there
// is room.
function rowLabelsAt(rowHeight) {
  const every = Math.max(1, Math.ceil(labelHeight / rowHeight));
  const labels = [];
  const isFree = (row) => labels.every((other) => Math.abs(other.row - row) >= every);
  const lateRows = heat.ranks.flatMap((rank, row) => late.has(rank) ? [row] : []);
  for (let i = 0, end = 0; i < lateRows.length; i = end) {
    for (end = i + 1; end < lateRows.length && lateRows[end] - lateRows[end - 1] < every;) ++end;
    const [first, last] = [lateRows[i], lateRows[end - 1]];
    const text = first === last ? String(heat.ranks[first]) : `${heat.ranks[first]}-${heat.ranks[last]}`;
    labels.push({row: (first + last) / 2, text, isLate: true});
  }
  const others = Array.from({length: Math.ceil(heat.ranks.length / every)}, (_, i) => i * every);
  for (const row of [...others, heat.ranks.length - 1]) if (isFree(row)) labels.push({row, text: String(heat.ranks[row]), isLate: false});
  return labels;
}

function rowLabels(rowHeight) {
  return node("div", {class: "rows", "aria-hidden": "true"}, rowLabelsAt(rowHeight).map(({row, text, isLate}) =>
    node("span", {class: isLate ? "late" : null, style: `top:${(row + 0.5) * rowHeight}px`}, text)));
}

// A line where each step starts, while there is room between them.
const leastStepWidth = 0.008;  // of the picture

function stepLines(first, end) {
  if (!steps) return [];
  const share = (time) => ((time - heat.start_ns) / heat.bin_ns - first) / (end - first);
  const seen = steps.start_ns.map((time, step) => ({step: steps.first + step, at: share(time)})).filter(({at}) => at >= 0 && at <= 1);
  if (seen.length < 2 || seen.at(-1).at - seen[0].at < leastStepWidth * (seen.length - 1)) return [];
  return seen.map(({step, at}) => node("i", {style: `left:${100 * at}%`, title: `step ${step}`}));
}

const membersOf = new Map(report.communicators.map((one) => [one.communicator, new Set(one.trace_ranks)]));

// The collective to open for a cell: of those in which its trace rank took part, the one that ended in its span of time
// in which it waited most; else the nearest in time.
function collectiveAt(rank, bin) {
  const [start, end] = [heat.start_ns + bin * heat.bin_ns, heat.start_ns + (bin + 1) * heat.bin_ns];
  let best = null;
  for (const one of collectives) {
    if (!membersOf.get(one.communicator)?.has(rank)) continue;
    const at = one.last_enter_ns;
    const outside = at < start ? start - at : at >= end ? at - end + 1 : 0;
    const waited = one.arrivals.find((arrival) => arrival.trace_rank === rank)?.wait_ns ?? 0;
    if (best === null || outside < best.outside || (outside === best.outside && waited > best.waited)) best = {outside, waited, one};
  }
  return best;
}

function openCell({row, bin}) {
  const rank = heat.ranks[row];
  const found = collectiveAt(rank, bin);
  if (found === null) return;
  const time = duration(heat.start_ns + bin * heat.bin_ns);
  showCollective(found.one.instance, true, found.outside === 0 ? `Rank ${rank} at ${time}: it waited ${duration(found.waited)} here.`
    : `Of rank ${rank} at ${time} the page holds no collective; this is its nearest one, ${duration(found.outside)} away. All are in store.h5.`);
}

// `glance`: own lateness alone, as high as a hand, without controls.
export function heatmap({glance = false} = {}) {
  if (!heat || heat.ranks.length === 0) {
    return absent("no collective was matched between ranks: give the traces of all ranks over the same steps.", record.everyRank);
  }
  const state = {kind: glance ? "own" : "wait", first: 0, end: heat.bins, cursor: {row: 0, bin: 0}};
  const canvas = node("canvas", {tabindex: 0, role: "application",
    "aria-label": glance ? "Own lateness by rank and time. Arrow keys move, Enter opens a collective of the rank there." : "Waiting by rank and time. Arrow keys move, Enter opens a collective of the rank there, plus and minus zoom."});
  const status = node("output", {"aria-live": "polite"});
  const selection = node("div", {class: "selection", hidden: true});
  const height = glance ? Math.max(60, Math.min(220, 22 * heat.ranks.length)) : Math.max(60, Math.min(1200, heat.ranks.length * Math.max(1, Math.min(22, Math.floor(460 / heat.ranks.length)))));
  const rowHeight = height / heat.ranks.length;
  const lines = node("div", {class: "step-lines", "aria-hidden": "true"});
  const times = node("div", {class: "axis"});
  const most = node("span");
  const scale = node("span", {class: "legend"});

  function paint() {
    const values = heat[state.kind];
    const bins = state.end - state.first;
    let largest = 1;
    for (const row of values) for (let b = state.first; b < state.end; ++b) largest = Math.max(largest, row[b]);
    canvas.width = bins;
    canvas.height = heat.ranks.length;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    const image = context.createImageData(bins, heat.ranks.length);
    values.forEach((row, r) => {
      for (let b = 0; b < bins; ++b) {
        const [red, green, blue] = colour(Math.sqrt(row[state.first + b] / largest));
        image.data.set([red, green, blue, 255], 4 * (r * bins + b));
      }
    });
    context.putImageData(image, 0, 0);
    const [from, to] = [state.first, state.end].map((bin) => heat.start_ns + bin * heat.bin_ns);
    times.replaceChildren(...roundTicks(from, to, timeLabels).map((time) => node("span", {style: `left:${100 * (time - from) / (to - from)}%`}, rough(time))));
    lines.replaceChildren(...stepLines(state.first, state.end));
    scale.style.background = `linear-gradient(to right, ${ramp().join(", ")})`;
    most.textContent = `${duration(largest)} ${kinds[state.kind]} within ${duration(heat.bin_ns)}`;
    canvas.dataset.drawn = "yes";
  }

  function describe({row, bin}) {
    const rank = heat.ranks[row];
    status.textContent = `Rank ${rank}${late.has(rank) ? " (late: the others wait for it)" : ""}, at ` +
      `${duration(heat.start_ns + bin * heat.bin_ns)}: ${duration(heat.wait[row][bin])} waiting, ` +
      `${duration(heat.own[row][bin])} own lateness within ${duration(heat.bin_ns)}`;
  }

  function cellAt(event) {
    const box = canvas.getBoundingClientRect();
    const clamp = (value, end) => Math.min(end - 1, Math.max(0, Math.floor(value)));
    return {row: clamp((event.clientY - box.top) / box.height * heat.ranks.length, heat.ranks.length),
      bin: state.first + clamp((event.clientX - box.left) / box.width * (state.end - state.first), state.end - state.first)};
  }

  function zoom(first, end) {
    state.first = Math.max(0, Math.min(first, heat.bins - 1));
    state.end = Math.min(heat.bins, Math.max(end, state.first + 4));
    state.first = Math.max(0, Math.min(state.first, state.end - 4));
    paint();
  }

  let drag = null;
  canvas.addEventListener("pointermove", (event) => {
    const cell = cellAt(event);
    describe(cell);
    if (drag === null) return;
    const box = canvas.getBoundingClientRect();
    const [left, right] = [Math.min(drag.x, event.clientX), Math.max(drag.x, event.clientX)];
    selection.hidden = right - left < 6;
    selection.style.left = `${left - box.left}px`;
    selection.style.width = `${right - left}px`;
  });
  canvas.addEventListener("pointerdown", (event) => { drag = {x: event.clientX, bin: cellAt(event).bin}; });
  window.addEventListener("pointerup", (event) => {
    if (drag === null) return;
    const cell = cellAt(event);
    const wide = Math.abs(event.clientX - drag.x) >= 6;
    if (wide) zoom(Math.min(drag.bin, cell.bin), Math.max(drag.bin, cell.bin) + 1);
    else if (event.target === canvas) openCell(cell);
    selection.hidden = true;
    drag = null;
  });
  canvas.addEventListener("keydown", (event) => {
    const {cursor} = state;
    const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    if (moves[event.key]) {
      cursor.row = Math.min(heat.ranks.length - 1, Math.max(0, cursor.row + moves[event.key][0]));
      cursor.bin = Math.min(state.end - 1, Math.max(state.first, cursor.bin + moves[event.key][1]));
      describe(cursor);
    } else if (event.key === "Enter") openCell(cursor);
    else if (event.key === "+" || event.key === "=") {
      const quarter = Math.max(1, Math.floor((state.end - state.first) / 4));
      zoom(cursor.bin - quarter, cursor.bin + quarter);
    } else if (event.key === "-" || event.key === "Escape") zoom(0, heat.bins);
    else return;
    event.preventDefault();
  });

  const switches = Object.entries(kinds).map(([kind, name]) => node("button", {type: "button", "data-kind": kind,
    "aria-pressed": String(kind === state.kind), onclick: (event) => {
      state.kind = kind;
      for (const button of switches) button.setAttribute("aria-pressed", String(button === event.currentTarget));
      paint();
    }}, name));
  const reset = node("button", {type: "button", onclick: () => zoom(0, heat.bins)}, "whole run");
  paint();
  onThemeChange(paint);
  const frame = node("div", {class: "heat-frame"}, node("span", {class: "axis-title"}, "rank"), rowLabels(rowHeight), node("div", {class: "heat"}, canvas, lines, selection), times,
    node("span", {class: "time-title"}, "time since the job's first session started"));
  if (glance) return node("div", {}, frame, status, node("p", {class: "note"}, node("a", {href: "#heat"}, "Waiting, and closer looks")));
  return node("div", {}, node("div", {class: "controls"}, node("span", {}, "Show"), switches, stepSelector(zoom), reset,
    node("span", {class: "scale"}, "0", scale, most)),
  node("p", {class: "note"}, `Every row is one of ${count(heat.ranks.length)} ranks, every column a span of time. Drag to zoom; click a cell for the collective in which its rank waited. Colours follow the square root.` +
    (late.size > 0 ? " Red numbers: late ranks. Their own rows are blank where the others wait for them." : "") + (steps ? " Lines: starts of steps." : "")),
  frame, status);
}

// More steps than this are too many to choose one from.
const mostChoices = 1000;

// Zoom to the steps of the job where they are known.
function stepSelector(zoom) {
  if (!steps || steps.start_ns.length < 2 || steps.start_ns.length > mostChoices) return null;
  const bin = (time) => Math.floor((time - heat.start_ns) / heat.bin_ns);
  const select = node("select", {"aria-label": "Zoom to a step", onchange: () => {
    if (select.value === "") return zoom(0, heat.bins);
    const step = Number(select.value);
    return zoom(bin(steps.start_ns[step]), bin(steps.start_ns[step + 1] ?? steps.end_ns) + 1);
  }}, node("option", {value: ""}, "all steps"), steps.start_ns.map((_, step) => node("option", {value: step}, `step ${steps.first + step}`)));
  return select;
}
