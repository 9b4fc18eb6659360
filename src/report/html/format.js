// Numbers as people read them, and DOM nodes from text. Text from traces only ever becomes text nodes or attributes.

const units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

export function duration(ns) {
  return inUnits(ns, 4);
}

// As much as a picture shows.
export function rough(ns) {
  return inUnits(ns, 3);
}

// Round numbers between two, at most so many: 1, 2 or 5 times a power of ten apart.
export function roundTicks(from, to, most) {
  const least = (to - from) / Math.max(1, most);
  if (!(least > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(least));
  const apart = power * [1, 2, 5, 10].find((factor) => factor * power >= least);
  const first = Math.ceil(from / apart);
  return Array.from({length: Math.max(0, Math.floor(to / apart) - first + 1)}, (_, i) => (first + i) * apart);
}

function inUnits(ns, digits) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return "-";
  const size = Math.abs(ns);
  if (size >= 3600e9) return `${significant(ns / 3600e9, digits)} h`;
  for (const [scale, unit] of units) {
    if (size >= scale || scale === 1) return `${significant(ns / scale, digits)} ${unit}`;
  }
  return "-";
}

// What is below this beside numbers of everyday size is what is left of rounding doubles.
const noise = 1e-9;

export function significant(value, digits = 4) {
  if (Math.abs(value) < noise) return "0";
  if (Math.abs(value) >= 10 ** digits) return Math.round(value).toLocaleString("en-US");
  return Number(value.toPrecision(digits)).toString();
}

const sizes = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];

export function bytes(value) {
  if (value === null || value === undefined || value < 0) return "-";
  for (const [scale, unit] of sizes) {
    if (value >= scale) return `${significant(value / scale)} ${unit}`;
  }
  return `${significant(value)} B`;
}

// Chances below this are not told apart by anybody.
const leastChance = 1e-12;

function chance(value) {
  return value < leastChance ? `< ${leastChance}` : significant(value, 3);
}

export function count(value) {
  return value === null || value === undefined ? "-" : Number(value).toLocaleString("en-US");
}

// The name of a column as a heading; its values carry the unit.
export function heading(name) {
  return name.replace(/_(ns|bytes|gbs)$/, "").replace(/_tflops$/, " (TFLOP/s)").replace(/_ppb$/, " (ppb)")
    .replace(/_percent$/, " (%)").replaceAll("_", " ").replace(/\b(cpu|cuda|gpu|nccl|nvtx|os|sm|utc)\b/g, (word) => word.toUpperCase());
}

export function percent(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)}%` : "-";
}

export function short(text, length = 60) {
  const characters = Array.from(String(text));
  return characters.length <= length ? characters.join("") : characters.slice(0, length - 1).join("") + "\u2026";
}

function sharedStart(a, b) {
  let at = 0;
  while (at < a.length && a[at] === b[at]) ++at;
  return at;
}

// Each as short() has it; those that would look alike keep their beginning and what tells them apart.
export function apart(texts, length = 60) {
  const cut = texts.map((text) => short(text, length));
  const alike = new Map();
  texts.forEach((text, i) => alike.set(cut[i], (alike.get(cut[i]) ?? new Set()).add(text)));
  const start = Math.floor(length / 3);
  const shared = new Map([...alike].filter(([, twins]) => twins.size > 1).map(([look, twins]) => {
    const sorted = [...twins].sort();  // all share what the first and the last do
    return [look, sharedStart(sorted[0], sorted.at(-1))];
  }));
  return texts.map((text, i) => !shared.has(cut[i]) ? cut[i]
    : short(`${text.slice(0, start)}\u2026${text.slice(Math.max(start, shared.get(cut[i]) - 3))}`, length));
}

// Columns say what is special about them: "1: what it means" is a yes, and "; -1: not known" or "else -1" a missing value
// (`mayMiss`: their table says so of all).
const isFlag = (column) => column.description?.startsWith("1: ");
const isMissing = (cell, column) => cell === -1 && (column.mayMiss || /(^|\W)-1(:| where|$)/.test(column.description ?? ""));

// A value by its column's unit.
export function value(cell, column) {
  if (cell === null || cell === undefined || isMissing(cell, column)) return "-";
  if (typeof cell === "boolean" || isFlag(column)) return cell ? "yes" : "no";
  if (column.unit === "ns") return duration(cell);
  if (column.unit === "bytes") return bytes(cell);
  if (column.unit === "GB/s") return `${bytes(1e9 * cell)}/s`;
  if (/(^|_)p_value$/.test(column.name)) return chance(cell);
  if (typeof cell === "number") return Number.isInteger(cell) ? count(cell) : significant(cell);
  return String(cell);
}

// node("p", {class: "note"}, "text", child, ...)
export function node(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, setting] of Object.entries(attributes)) {
    if (setting === undefined || setting === null || setting === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), setting);
    else element.setAttribute(name, setting === true ? "" : setting);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}
