import {onThemeChange, style} from "../charts.js";
import {collectives, heat, late, steps} from "../data.js";
import {count, duration, node} from "../format.js";
import {showCollective} from "./collective.js";

// Rank x time: one pixel block per trace rank and span of time, painted at once, so that a thousand ranks open at once.
const kinds = {wait: "waiting", own: "own lateness"};

function colour(share, isDark) {
  // From the page's colour over blue to red; perceptibly ordered on light and dark.
  const stops = isDark ? [[20, 23, 27], [35, 90, 160], [200, 120, 60], [255, 210, 140]]
    : [[255, 255, 255], [130, 180, 230], [225, 120, 60], [130, 10, 30]];
  const place = Math.min(0.9999, Math.max(0, share)) * (stops.length - 1);
  const low = Math.floor(place);
  return stops[low].map((from, c) => Math.round(from + (place - low) * (stops[low + 1][c] - from)));
}

export function heatmap() {
  if (!heat || heat.ranks.length === 0) {
    return node("p", {class: "empty"}, "No collectives were matched, so there is no waiting to show.");
  }
  const state = {kind: "wait", first: 0, end: heat.bins, cursor: {row: 0, bin: 0}};
  const canvas = node("canvas", {tabindex: 0, role: "application",
    "aria-label": "Waiting by trace rank and time. Arrow keys move, Enter opens the costliest collective, plus and minus zoom."});
  const status = node("output", {"aria-live": "polite"});
  const from = node("span");
  const to = node("span");
  const selection = node("div", {class: "selection", hidden: true});
  const perRow = Math.max(3, Math.min(22, Math.floor(460 / heat.ranks.length)));

  function paint() {
    const values = heat[state.kind];
    const bins = state.end - state.first;
    let most = 1;
    for (const row of values) for (let b = state.first; b < state.end; ++b) most = Math.max(most, row[b]);
    canvas.width = bins;
    canvas.height = heat.ranks.length;
    canvas.style.height = `${Math.max(60, perRow * heat.ranks.length)}px`;
    const context = canvas.getContext("2d");
    const image = context.createImageData(bins, heat.ranks.length);
    const isDark = window.matchMedia("(prefers-color-scheme: dark)").matches;
    values.forEach((row, r) => {
      for (let b = 0; b < bins; ++b) {
        const [red, green, blue] = colour(Math.sqrt(row[state.first + b] / most), isDark);
        image.data.set([red, green, blue, 255], 4 * (r * bins + b));
      }
    });
    context.putImageData(image, 0, 0);
    from.textContent = duration(heat.start_ns + state.first * heat.bin_ns);
    to.textContent = duration(heat.start_ns + state.end * heat.bin_ns);
    canvas.dataset.drawn = "yes";
  }

  function describe({row, bin}) {
    const rank = heat.ranks[row];
    status.textContent = `Trace rank ${rank}${late.has(rank) ? " (late)" : ""}, at ` +
      `${duration(heat.start_ns + bin * heat.bin_ns)}: ${duration(heat.wait[row][bin])} waiting, ` +
      `${duration(heat.own[row][bin])} own lateness within ${duration(heat.bin_ns)}`;
  }

  function cellAt(event) {
    const box = canvas.getBoundingClientRect();
    const clamp = (value, end) => Math.min(end - 1, Math.max(0, Math.floor(value)));
    return {row: clamp((event.clientY - box.top) / box.height * heat.ranks.length, heat.ranks.length),
      bin: state.first + clamp((event.clientX - box.left) / box.width * (state.end - state.first), state.end - state.first)};
  }

  function open(bin) {
    const start = heat.start_ns + bin * heat.bin_ns;
    let best = null;
    for (const one of collectives) {
      const distance = Math.abs(one.last_enter_ns - (start + heat.bin_ns / 2));
      if (best === null || distance < best.distance) best = {distance, one};
    }
    if (best) showCollective(best.one.instance);
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
    else if (event.target === canvas) open(cell.bin);
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
    } else if (event.key === "Enter") open(cursor.bin);
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
  return node("div", {}, node("div", {class: "controls"}, node("span", {}, "Show"), switches, stepSelector(zoom), reset,
    node("span", {class: "note"}, `${count(heat.ranks.length)} trace ranks (top: ${heat.ranks[0]}, bottom: ` +
      `${heat.ranks[heat.ranks.length - 1]}); darker or brighter is more; drag to zoom, click for the costliest collective there`)),
  node("div", {class: "heat"}, canvas, selection), node("div", {class: "axis"}, from, to), status);
}

// Zoom to the steps of the job where they are known.
function stepSelector(zoom) {
  if (!steps || steps.start_ns.length < 2) return null;
  const bin = (time) => Math.floor((time - heat.start_ns) / heat.bin_ns);
  const select = node("select", {"aria-label": "Zoom to a step", onchange: () => {
    if (select.value === "") return zoom(0, heat.bins);
    const step = Number(select.value);
    return zoom(bin(steps.start_ns[step]), bin(steps.start_ns[step + 1] ?? steps.end_ns) + 1);
  }}, node("option", {value: ""}, "all steps"), steps.start_ns.map((_, step) => node("option", {value: step}, `step ${steps.first + step}`)));
  return select;
}
