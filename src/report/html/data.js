// The data of the page: report.json, the heat map, the costliest collective of every span of time, and tables.

const embedded = JSON.parse(document.getElementById("data").textContent);

export const report = embedded.report;
export const heat = embedded.heat;

// Arrivals travel column by column, with enter and exit from the first enter on.
export const collectives = (embedded.collectives ?? []).map((one) => ({...one,
  arrivals: one.arrivals.trace_rank.map((_, i) => {
    const arrival = Object.fromEntries(Object.keys(one.arrivals).map((name) => [name, one.arrivals[name][i]]));
    arrival.enter_ns += one.first_enter_ns;
    arrival.exit_ns += one.first_enter_ns;
    return arrival;
  })}));
export const stragglers = report.stragglers ?? [];
export const ranks = report.ranks ?? [];

export const identity = new Map((report.trace_ranks ?? []).map((rank) => [rank.trace_rank, rank]));
export const late = new Set(stragglers.map((straggler) => straggler.trace_rank));

// Rows of a store table as objects; [] where the page holds none. `tables[name].left_out` rows are only in the store.
const rowsByName = new Map();
export function rows(name) {
  if (!rowsByName.has(name)) {
    const table = embedded.tables?.[name];
    const made = [];
    if (table) {
      const names = table.columns.map((column) => column.name);
      for (let r = 0; r < table.rows; ++r) {
        const row = {};
        names.forEach((column, c) => { row[column] = table.values[c][r]; });
        made.push(row);
      }
    }
    rowsByName.set(name, made);
  }
  return rowsByName.get(name);
}

export function columns(name) {
  return embedded.tables?.[name]?.columns ?? [];
}

export function leftOut(name) {
  return embedded.tables?.[name]?.left_out ?? 0;
}

export function tableNames() {
  return Object.keys(embedded.tables ?? {});
}

export function description(name) {
  return embedded.tables?.[name]?.description ?? "";
}
