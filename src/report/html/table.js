import {columns as columnsOf, description, late, leftOut, rows as rowsOf} from "./data.js";
import {apart, count, heading, node, short, value} from "./format.js";

// Tables that sort by any column, search, filter and go to a spreadsheet.

const scales = {ns: 1, us: 1e3, ms: 1e6, s: 1e9, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12};

// "wait>3ms" as a test of a row; null where it is no condition on one of the columns.
function condition(word, columns) {
  const [, name, sign, wanted] = word.match(/^([a-z_]+)(=|<|>)(.+)$/) ?? [];
  const column = name && (columns.find((one) => one.name === name) ?? columns.find((one) => one.name.startsWith(name)) ?? columns.find((one) => one.name.endsWith(name)));
  if (!column) return null;
  const [, digits, unit] = wanted.match(/^(-?[\d.]+)([a-z]*)$/) ?? [];
  const number = digits === undefined ? NaN : Number(digits) * (scales[unit] ?? 1);
  return (row) => {
    const cell = row[column.name];
    if (sign === ">") return cell > number;
    if (sign === "<") return cell < number;
    return Number.isNaN(number) || typeof cell !== "number" ? String(cell).toLowerCase() === wanted : cell === number;
  };
}

function shown(column, row) {
  return column.show ? column.show(row) : value(row[column.name], column);
}

function textOf(columns, row) {
  return columns.map((column) => { const cell = shown(column, row); return cell instanceof Node ? cell.textContent : String(cell); }).join("\n").toLowerCase();
}

// All words must fit: conditions on columns, or texts that stand anywhere in the row.
function filtered(rows, columns, query) {
  return query.toLowerCase().split(/\s+/).filter((word) => word !== "").reduce((left, word) => {
    const test = condition(word, columns) ?? ((row) => textOf(columns, row).includes(word));
    return left.filter(test);
  }, rows);
}

// RFC 4180; no spreadsheet may take a text for a formula. Numbers are those of the store, in its units.
export function csv(columns, rows) {
  const quoted = (text) => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const cell = (content) => content === null || content === undefined ? "" : typeof content !== "string" ? String(content)
    : quoted(/^[=+\-@\t\r\n]/.test(content) ? `'${content}` : content);
  return [columns.map((column) => cell(column.name)), ...rows.map((row) => columns.map((column) => cell(row[column.name])))]
    .map((line) => `${line.join(",")}\r\n`).join("");
}

function download(name, text) {
  const link = node("a", {download: `${name}.csv`, href: URL.createObjectURL(new Blob([text], {type: "text/csv"}))});
  link.click();
  URL.revokeObjectURL(link.href);
}

function inOrder(rows, {column, descending}) {
  if (column === null) return rows;
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [a[column.name], b[column.name]];
    if (typeof x === "number" && typeof y === "number") return sign * (x - y);
    return sign * String(x ?? "").localeCompare(String(y ?? ""));
  });
}

// The first rows, and the marked ones (late trace ranks) wherever they stand.
function firstAndMarked(rows, limit, marked) {
  let others = 0;
  return rows.filter((row, place) => place < limit || (marked?.(row) && ++others <= limit));
}

function bodyRows(columns, rows, options) {
  const contents = columns.map((column) => rows.map((row) => shown(column, row)));
  const texts = columns.map((column, c) => column.text ? apart(contents[c].map((content) => content instanceof Node ? "" : String(content)), 90) : null);
  return rows.map((row, r) => node("tr", {class: options.marked?.(row) ? "marked" : null, id: options.id?.(row)}, columns.map((column, c) => {
    const content = contents[c][r];
    const isText = column.text && !(content instanceof Node);
    return node("td", {class: column.text ? "text" : null, title: isText ? short(content, 400) : null}, isText ? texts[c][r] : content);
  })));
}

// columns: [{name, title, unit, text, show(row)}]; rows: objects by column name.
// options: label, marked(row), id(row), limit, leftOut (rows that only the store has).
export function sortableTable(columns, rows, options = {}) {
  let limit = options.limit ?? 200;
  let order = {column: null, descending: true};
  const label = options.label ?? "table";
  const body = node("tbody");
  const tally = node("span", {class: "tally", "aria-live": "polite"});
  const search = node("input", {type: "search", placeholder: "search, or rank=5 wait>3ms", "aria-label": `Search ${label}`, oninput: () => fill()});
  const more = node("button", {type: "button", onclick: () => { limit *= 5; fill(); }}, "more rows");

  function fill() {
    const found = filtered(rows, columns, search.value);
    const seen = firstAndMarked(inOrder(found, order), limit, options.marked);
    body.replaceChildren(...bodyRows(columns, seen, options));
    more.hidden = seen.length === found.length;
    tally.textContent = `${seen.length < found.length ? `${count(seen.length)} of ` : ""}${count(found.length)} ${found.length === 1 ? "row" : "rows"}` +
      (seen.length < found.length && options.marked && found.some(options.marked) ? ", late ones among them" : "") +
      (found.length < rows.length ? `, of ${count(rows.length)}` : "") + (options.leftOut > 0 ? `; ${count(options.leftOut)} more in store.h5` : "");
  }

  const heads = columns.map((column) => {
    const head = node("th", {scope: "col", class: column.text ? "text" : null, "aria-sort": "none", title: column.description});
    const button = node("button", {type: "button", onclick: () => {
      order = {column, descending: order.column === column ? !order.descending : !column.text};
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
      fill();
    }}, column.title ?? heading(column.name));
    head.append(button);
    return head;
  });
  fill();
  return node("div", {class: "table"}, node("div", {class: "tools"}, search,
    node("button", {type: "button", "aria-label": `${label} as CSV`, onclick: () =>
      download(label.replace(/[^\w]+/g, "_"), csv(columns, inOrder(filtered(rows, columns, search.value), order)))}, "CSV"), tally, more),
  node("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": label},
    node("table", {"aria-label": label}, node("thead", {}, node("tr", {}, heads)), body)));
}

// Columns that say whom a row is about.
const isLate = (row) => late.has(row.trace_rank) || late.has(row.late_trace_rank) || late.has(row.last_trace_rank);

// Any table of the store as it is, or the rows of `list`; late trace ranks come first unless the list has an order of its own.
export function plainTable(name, options = {}) {
  const list = options.list ?? [...rowsOf(name)].sort((a, b) => isLate(b) - isLate(a));
  if (list.length === 0) return node("p", {class: "note"}, options.empty ?? `Table ${name} is empty for these traces.`);
  return sortableTable(columnsOf(name).map((column) => ({...column, text: typeof list[0][column.name] === "string", mayMiss: description(name).includes("-1: ")})), list,
  {label: heading(name), marked: isLate, leftOut: options.list ? 0 : leftOut(name), ...options});
}
