// Numbers as people read them, and DOM nodes from text. Text from traces only ever becomes text nodes or attributes.

const units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

export function duration(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return "-";
  const size = Math.abs(ns);
  if (size >= 3600e9) return `${significant(ns / 3600e9)} h`;
  for (const [scale, unit] of units) {
    if (size >= scale || scale === 1) return `${significant(ns / scale)} ${unit}`;
  }
  return "-";
}

export function significant(value, digits = 4) {
  if (value === 0) return "0";
  if (Math.abs(value) >= 10 ** digits) return Math.round(value).toLocaleString("en-US");
  return Number(value.toPrecision(digits)).toString();
}

export function bytes(value) {
  if (value === null || value === undefined || value < 0) return "-";
  for (const [scale, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (value >= scale) return `${significant(value / scale)} ${unit}`;
  }
  return `${value} B`;
}

export function count(value) {
  return value === null || value === undefined ? "-" : Number(value).toLocaleString("en-US");
}

// The name of a column as a heading; its values carry the unit.
export function heading(name) {
  return name.replace(/_(ns|bytes)$/, "").replace(/_gbs$/, " (GB/s)").replace(/_tflops$/, " (TFLOP/s)").replace(/_ppb$/, " (ppb)")
    .replace(/_percent$/, " (%)").replaceAll("_", " ").replace(/\b(cpu|cuda|gpu|nccl|nvtx|os|sm|utc)\b/g, (word) => word.toUpperCase());
}

export function percent(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)}%` : "-";
}

export function short(text, length = 60) {
  const characters = Array.from(String(text));
  return characters.length <= length ? characters.join("") : characters.slice(0, length - 1).join("") + "\u2026";
}

// A value by its column's unit.
export function value(cell, column) {
  if (cell === null || cell === undefined) return "-";
  if (column.unit === "ns") return duration(cell);
  if (column.unit === "bytes") return bytes(cell);
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
