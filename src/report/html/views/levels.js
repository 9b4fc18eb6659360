import {absent, record} from "../absent.js";
import {ranks, rows, stragglers, view} from "../data.js";
import {count, heading, node} from "../format.js";
import {plainTable, sortableTable} from "../table.js";

// Places that the verdict names.
const latePlaces = new Set(stragglers.map((one) => `${one.level} ${one.place}`));

const order = ["node", "rail", "rack", "pipeline_stage", "expert_index", "tensor_index", "data_index"];

// What the trace ranks of each place come to: nodes, rails, racks, pipeline stages, tensor and data indices.
export function levels() {
  const list = view("level_sums");
  if (list.length === 0) {
    return ranks.length < 2 ? absent("a single rank has no levels.", record.everyRank)
      : absent("every rank is a place of its own on all levels that are known, so there is nothing to add up.");
  }
  const time = (name, title) => ({name, title, unit: "ns"});
  const columns = (level) => [{name: "place", title: heading(level), text: true}, {name: "trace_ranks", title: "ranks"}, {name: "first_trace_rank", title: "lowest"},
    time("own_lateness_ns", "own lateness"), time("inherited_lateness_ns", "inherited lateness"), time("caused_wait_ns", "caused wait"),
    time("wait_ns", "wait"), time("compute_ns", "compute"), time("exposed_communication_ns", "exposed communication"), time("idle_ns", "idle"), time("window_ns", "window")];
  const known = [...new Set(list.map((row) => row.level))].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  return node("div", {}, known.map((level) => {
    const places = list.filter((row) => row.level === level).sort((a, b) => b.caused_wait_ns - a.caused_wait_ns || a.first_trace_rank - b.first_trace_rank);
    return node("div", {class: "level"}, node("h3", {}, `By ${heading(level)} (${count(places.length)})`),
      sortableTable(columns(level), places, {label: `By ${heading(level)}`, limit: 128, marked: (row) => latePlaces.has(`${row.level} ${row.place}`)}));
  }), rows("stage_balance").length > 0 ? node("div", {}, node("h3", {}, "Balance of the pipeline stages"),
    node("p", {class: "note"}, "Kernel time per span of whole steps; what only one stage runs (embedding, head, loss) is uneven by design."), plainTable("stage_balance")) : null);
}
