// The data of the page: report.json, the heat map, the costliest collective of every span of time, and tables.

const embedded = JSON.parse(document.getElementById("data").textContent);

// Texts may stand once, with codes that tell which is where.
const valuesOf = (cells) => cells.texts ? cells.codes.map((code) => cells.texts[code]) : cells;

// Objects from columns of equal length.
function objects(columns) {
  const names = Object.keys(columns);
  const values = names.map((name) => valuesOf(columns[name]));
  return (values[0] ?? []).map((_, i) => Object.fromEntries(names.map((name, c) => [name, values[c][i]])));
}

export const report = {...embedded.report, ranks: objects(embedded.report.ranks), trace_ranks: objects(embedded.report.trace_ranks),
  inputs: objects(embedded.report.inputs),
  clock: {...embedded.report.clock, sessions: objects(embedded.report.clock.sessions)}};

// Trace ranks beside each other in pictures.
export const chartedRanks = embedded.charted_ranks;

// Cells of the heat map are two digits of base 64: 0, or 1 + 100 x log2 of the microseconds.
const digits = new Map(Array.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", (digit, value) => [digit, value]));
const nanosecondsOf = Array.from({length: 4096}, (_, code) => code === 0 ? 0 : Math.round(1000 * 2 ** ((code - 1) / 100)));
const nanoseconds = (rows) => rows.map((row) => Array.from({length: row.length / 2}, (_, bin) => nanosecondsOf[64 * digits.get(row[2 * bin]) + digits.get(row[2 * bin + 1])]));
export const heat = embedded.heat && {...embedded.heat, wait: nanoseconds(embedded.heat.wait), own: nanoseconds(embedded.heat.own)};

// What every rank did in some steps: rows of runs, each [cell, bins]. A cell is 16 x compute + 4 x waiting + exposed
// transfer, in thirds of its time.
const runs = (row) => Array.from({length: row.length / 2}, (_, i) => [digits.get(row[2 * i]), digits.get(row[2 * i + 1]) + 1]);
export const lanes = embedded.lanes;
export const laneRows = (span) => span.rows.map(runs);

// Collectives and arrivals travel column by column: `listed` arrivals of each, with enter from the first enter on.
function readCollectives({arrivals, ...columns}) {
  const all = objects(arrivals);
  let next = 0;
  return objects(columns).map((one) => {
    const own = all.slice(next, next += one.listed);
    for (const arrival of own) arrival.enter_ns += one.first_enter_ns;
    return {...one, arrivals: own};
  });
}

export const collectives = readCollectives(embedded.collectives);
export const stragglers = report.stragglers ?? [];
export const ranks = report.ranks;

export const identity = new Map(report.trace_ranks.map((rank) => [rank.trace_rank, rank]));
export const late = new Set(stragglers.flatMap((straggler) => straggler.trace_ranks?.length > 0 ? straggler.trace_ranks : [straggler.trace_rank]));

export const steps = embedded.steps;

// By finding, the view that holds its evidence, where the table of the finding says it.
export const viewsOfTables = embedded.finding_views;

// What a few trace ranks did around some moments: names, and rows of starts (each from the one before), durations, names.
export const moments = embedded.moments;

// Rows of a table as objects; [] where the page holds none. `leftOut(name)` more are only in the store.
function reader(tables) {
  const known = new Map();
  return (name) => {
    if (!known.has(name)) {
      const table = tables?.[name];
      const made = [];
      const values = table?.values.map(valuesOf);
      for (let r = 0; r < (table?.rows ?? 0); ++r) {
        made.push(Object.fromEntries(table.columns.map((column, c) => [column.name, values[c][r]])));
      }
      known.set(name, made);
    }
    return known.get(name);
  };
}

// The first rows of a store table, of every trace rank.
export const rows = reader(embedded.tables);
// What a picture needs of it: sums over all trace ranks, or the trace ranks and the rows that tell most.
export const view = reader(embedded.views);

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
