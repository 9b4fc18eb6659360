import {columns as columnsOf, late, rows as rowsOf} from "./data.js";
import {heading, node, short, value} from "./format.js";

// A table that sorts by any column. columns: [{name, title, unit, text, show(row)}]; rows: objects by column name.
// options: marked(row), id(row), limit.
export function sortableTable(columns, rows, options = {}) {
  const limit = options.limit ?? 200;
  let order = {column: null, descending: true};
  const body = node("tbody");
  const more = node("p", {class: "note"});

  function sorted() {
    if (order.column === null) return rows;
    const key = order.column.name;
    const sign = order.descending ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [a[key], b[key]];
      if (typeof x === "number" && typeof y === "number") return sign * (x - y);
      return sign * String(x ?? "").localeCompare(String(y ?? ""));
    });
  }

  function fill() {
    body.replaceChildren(...sorted().slice(0, limit).map((row) => {
      const cells = columns.map((column) => {
        const shown = column.show ? column.show(row) : value(row[column.name], column);
        const isNode = shown instanceof Node;
        return node("td", {class: column.text ? "text" : null, title: !isNode && column.text ? short(shown, 400) : null},
          isNode ? shown : column.text ? short(shown, 90) : shown);
      });
      return node("tr", {class: options.marked?.(row) ? "marked" : null, id: options.id?.(row)}, cells);
    }));
    more.textContent = rows.length > limit ? `${limit} of ${rows.length} rows are shown; sort to see others first.` : "";
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
  return node("div", {}, node("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": options.label ?? "table"},
    node("table", {"aria-label": options.label}, node("thead", {}, node("tr", {}, heads)), body)), more);
}

// Any table of the store as it is.
export function plainTable(name, options = {}) {
  const list = options.list ?? rowsOf(name);
  if (list.length === 0) return node("p", {class: "empty"}, options.empty ?? `Table ${name} is empty for these traces.`);
  return sortableTable(columnsOf(name).map((column) => ({name: column.name, unit: column.unit, description: column.description,
    text: typeof list[0][column.name] === "string", show: (row) => value(row[column.name], column)})), list,
  {label: heading(name), marked: (row) => late.has(row.trace_rank), ...options});
}
