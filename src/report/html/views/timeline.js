import {absent, record} from "../absent.js";
import {palette} from "../charts.js";
import {onThemeChange, style} from "../colours.js";
import {identity, late, moments, steps} from "../data.js";
import {count, duration, node, rough, roundTicks, short} from "../format.js";
import {goTo} from "../navigate.js";
import {perfettoLink} from "./perfetto.js";

// What a few trace ranks did around the moment that a finding is about: rows of streams, NVTX ranges, calls and waits on
// the job's clock, on one canvas.

const colours = {compute: palette[0], communication: palette[1], copy: palette[4], graph: palette[6], range: palette[2], call: palette[7], wait: palette[3]};
const meanings = {wait: "waits in a collective", compute: "compute", communication: "communication", copy: "copies", graph: "graphs", range: "NVTX ranges", call: "calls of the host"};

// In pixels.
const [gutter, rowHeight, rankHeight, axisHeight] = [150, 15, 20, 22];
const leastText = 34;  // width of a box that gets its name
const font = "11px system-ui, sans-serif";

// Rows of a moment from top to bottom, with titles and absolute times.
function layOut(moment) {
  const rows = [];
  let y = axisHeight;
  for (const rank of moment.trace_ranks) {
    rows.push({y, title: `${rank} ${roleOf(moment, rank)}`, rank, isHead: true});
    y += rankHeight;
    for (const row of moment.rows.filter((one) => one.trace_rank === rank)) {
      let at = moment.start_ns;
      const starts = row.start.map((delta) => { at += delta; return at; });
      rows.push({y, title: titleOf(row), rank, starts, durations: row.duration, names: row.name});
      y += rowHeight;
    }
  }
  return {rows, height: y + 4};
}

function titleOf({kind, track, lane}) {
  if (kind === "waits") return "waits";
  if (lane > 0) return "";
  const streamOfCalls = 0xFFFFFFFE;  // stream_of_calls of include/nsys_explain/model/trace.hpp
  if (kind === "stream" && track === streamOfCalls) return "collectives of the host";
  return kind === "stream" ? `stream ${track}` : kind === "ranges" ? `NVTX, thread ${track}` : `calls, thread ${track}`;
}

function roleOf(moment, rank) {
  return rank === moment.late_trace_rank ? "(the one waited for)" : rank === moment.peer_trace_rank ? "(median peer)" : moment.late_trace_rank >= 0 ? "(waits)" : late.has(rank) ? "(late)" : "";
}

// A canvas over one moment. `tell(text)` is called with what lies under the pointer.
function drawing(moment, tell) {
  const {rows, height} = layOut(moment);
  const canvas = node("canvas", {tabindex: 0, role: "application", style: `height:${height}px`,
    "aria-label": `Timeline: ${moment.title}. Left and right move, plus and minus zoom, 0 shows all.`});
  const whole = [moment.start_ns, moment.end_ns];
  let [from, to] = whole;
  let wanted = null;  // numbers of names that the search found
  const width = () => canvas.clientWidth - gutter;
  const x = (time) => gutter + (time - from) / (to - from) * width();
  const timeAt = (pixel) => from + (pixel - gutter) / width() * (to - from);

  function drawRow(context, row) {
    let painted = -1;
    row.starts.forEach((start, i) => {
      const [left, right] = [Math.max(gutter, x(start)), Math.min(gutter + width(), x(start + row.durations[i]))];
      if (right < gutter || left > gutter + width() || (right - left < 1 && left < painted && wanted === null)) return;
      const isWanted = wanted === null || wanted.has(row.names[i]);
      context.globalAlpha = isWanted ? 1 : 0.15;
      context.fillStyle = colours[moments.names.kind[row.names[i]]];
      context.fillRect(left, row.y + 1, Math.max(1, right - left - (right - left > 3 ? 0.5 : 0)), rowHeight - 2);
      painted = left + 1;
      if (right - left < leastText || !isWanted) return;
      context.save();
      context.beginPath();
      context.rect(left, row.y, right - left - 2, rowHeight);
      context.clip();
      context.fillStyle = "#ffffff";
      context.fillText(moments.names.name[row.names[i]], left + 3, row.y + rowHeight / 2 + 0.5);
      context.restore();
    });
    context.globalAlpha = 1;
  }

  function line(context, time, colour, dash, text) {
    if (time < from || time > to) return;
    context.strokeStyle = context.fillStyle = colour;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x(time), text ? 4 : axisHeight);
    context.lineTo(x(time), height);
    context.stroke();
    context.setLineDash([]);
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, canvas.clientWidth * ratio);
    canvas.height = height * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = font;
    context.textBaseline = "middle";
    for (const row of rows) {
      if (row.isHead) {
        context.fillStyle = style("--raised");
        context.fillRect(0, row.y, canvas.clientWidth, rankHeight - 2);
        context.fillStyle = style(late.has(row.rank) ? "--bad" : "--text");
        context.font = `bold ${font}`;
        context.fillText(`rank ${row.title}`, 4, row.y + rankHeight / 2 - 1);
        context.font = font;
      } else {
        context.fillStyle = style("--muted");
        context.fillText(row.title, 12, row.y + rowHeight / 2);
        drawRow(context, row);
      }
    }
    for (const start of steps?.start_ns ?? []) line(context, start, style("--muted"), [1, 3]);
    line(context, moment.at_ns, style("--bad"), [4, 3], true);
    context.fillStyle = style("--muted");
    for (const after of roundTicks(from - moment.at_ns, to - moment.at_ns, width() / 110)) {
      const place = x(moment.at_ns + after);
      context.textAlign = place < gutter + 30 ? "left" : place > gutter + width() - 30 ? "right" : "center";
      context.fillText(after === 0 ? "0" : `${after > 0 ? "+" : "-"}${rough(Math.abs(after))}`, place, axisHeight / 2);
    }
    context.textAlign = "left";
    canvas.dataset.drawn = "yes";
    canvas.dataset.span = String(Math.round(to - from));
  }

  function show(first, last) {
    const span = Math.min(whole[1] - whole[0], Math.max(1000, last - first));
    from = Math.max(whole[0], Math.min(first, whole[1] - span));
    to = from + span;
    draw();
  }
  const zoom = (factor, at = (from + to) / 2) => show(at - (at - from) * factor, at + (to - at) * factor);
  const pan = (share) => show(from + share * (to - from), to + share * (to - from));

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const time = timeAt(event.clientX - box.left);
    const row = rows.find((one) => !one.isHead && event.clientY - box.top >= one.y && event.clientY - box.top < one.y + rowHeight);
    const slack = 2 * (to - from) / width();
    const hit = row?.starts.findIndex((start, i) => time >= start - slack && time <= start + row.durations[i] + slack) ?? -1;
    if (hit < 0) return tell(`${duration(Math.abs(time - moment.at_ns))} ${time < moment.at_ns ? "before" : "after"} the moment`);
    tell(`Rank ${row.rank}: ${short(moments.names.name[row.names[hit]], 160)}, ${duration(row.durations[hit])}, ` +
      `at ${duration(row.starts[hit])} of job time`);
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => { drag = {x: event.clientX, from, to}; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (drag === null) return under(event);
    const moved = (drag.x - event.clientX) / width() * (drag.to - drag.from);
    show(drag.from + moved, drag.to + moved);
  });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("dblclick", (event) => zoom(0.4, timeAt(event.clientX - canvas.getBoundingClientRect().left)));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, timeAt(event.clientX - canvas.getBoundingClientRect().left));
  }, {passive: false});
  const keys = {ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: () => show(...whole)};
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  });

  // Every event whose name holds the text, in order of time.
  function search(text) {
    if (text === "") {
      wanted = null;
      draw();
      return [];
    }
    wanted = new Set(moments.names.name.flatMap((name, number) => name.toLowerCase().includes(text.toLowerCase()) ? [number] : []));
    draw();
    return rows.filter((row) => !row.isHead).flatMap((row) => row.starts.flatMap((start, i) => wanted.has(row.names[i]) ? [{start, length: row.durations[i], row, name: row.names[i]}] : []))
      .sort((a, b) => a.start - b.start);
  }
  new ResizeObserver(draw).observe(canvas);
  onThemeChange(() => { if (canvas.isConnected) draw(); });
  return {canvas, zoom, pan, search, show, whole: () => show(...whole)};
}

function picture(moment) {
  const status = node("output", {"aria-live": "polite"}, "Drag to move, double click or Ctrl and the wheel to zoom, point at a box for its name.");
  const one = drawing(moment, (text) => { status.textContent = text; });
  const span = moment.end_ns - moment.start_ns;
  const button = (text, label, act) => node("button", {type: "button", "aria-label": label, onclick: act}, text);
  let found = [], next = 0;
  const tally = node("span", {class: "tally"});
  const search = node("input", {type: "search", placeholder: "search names; Enter: next", "aria-label": "Search the timeline", oninput: () => {
    found = one.search(search.value);
    next = 0;
    tally.textContent = search.value === "" ? "" : `${count(found.length)} found`;
  }, onkeydown: (event) => {
    if (event.key !== "Enter" || found.length === 0) return;
    const {start, length, row, name} = found[next++ % found.length];
    one.show(start - Math.max(length, span / 40), start + length + Math.max(length, span / 40));
    status.textContent = `Rank ${row.rank}: ${short(moments.names.name[name], 160)}, ${duration(length)}, at ${duration(start)} of job time`;
  }});
  // Half of the window at first: the step before the moment, and some of what follows.
  requestAnimationFrame(() => one.show(moment.at_ns - 0.35 * span, moment.at_ns + 0.15 * span));
  const kinds = new Set(moment.rows.flatMap((row) => row.name.map((name) => moments.names.kind[name])));
  return node("div", {}, node("div", {class: "tools"}, button("+", "Zoom in", () => one.zoom(0.5)), button("\u2212", "Zoom out", () => one.zoom(2)),
    button("\u2190", "Earlier", () => one.pan(-0.3)), button("\u2192", "Later", () => one.pan(0.3)), button("all", "All of it", one.whole),
    button("the moment", "To the moment", () => one.show(moment.at_ns - 0.05 * span, moment.at_ns + 0.03 * span)), search, tally,
    node("span", {class: "kinds"}, Object.keys(colours).filter((kind) => kinds.has(kind)).map((kind) => node("span", {}, node("i", {style: `background:${colours[kind]}`}), meanings[kind])))),
  node("div", {class: "lanes"}, one.canvas), status,
  node("p", {class: "note"}, `Times count from the moment (dashed line), ${duration(moment.at_ns)} of job time` +
    (moment.late_trace_rank >= 0 ? `, when rank ${moment.late_trace_rank} entered ${moment.instance < 0 ? "a collective that is not matched" : `collective ${moment.instance}`}` : "") + (steps ? "; dotted lines: starts of steps." : ".") +
    (moment.left_out > 0 ? ` ${count(moment.left_out)} short events farther from it are left out.` : "") +
    (moment.rows.some((row) => row.kind !== "waits") ? "" : " The traces could not be read again, so only waits are shown.")), perfettoLink(moment));
}

const place = node("div");
const select = node("select", {"aria-label": "Moment", onchange: () => draw(Number(select.value))});

function draw(number) {
  select.value = String(number);
  place.replaceChildren(picture(moments.list[number]));
}

export function timeline() {
  if (moments.list.length === 0) return absent("no rank was read.", record.cuda);
  const hostOf = (moment) => identity.get(moment.late_trace_rank)?.host;
  select.append(...moments.list.map((moment, number) => node("option", {value: number}, moment.title + (hostOf(moment) ? ` (${hostOf(moment)})` : ""))));
  draw(0);
  return node("div", {}, node("div", {class: "controls"}, select), place);
}

// The moment at which one of these trace ranks is late, else the usual one; -1 where there is none.
export function momentOf(traceRanks) {
  const own = moments.list.findIndex((moment) => traceRanks.includes(moment.late_trace_rank));
  return own >= 0 ? own : moments.list.length - 1;
}

export function showMoment(number) {
  goTo("timeline");
  draw(number);
}
