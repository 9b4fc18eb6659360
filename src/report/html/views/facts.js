import {absent} from "../absent.js";
import {ranks, report} from "../data.js";
import {count, heading} from "../format.js";
import {sortableTable} from "../table.js";

// What the job ran on; a fact in which the trace ranks differ is marked and says who has what.
export function facts() {
  const list = report.run_facts ?? [];
  if (list.length === 0) return absent("the exports say nothing about hardware and software.");
  const who = (one) => one.trace_ranks === null ? "all" : one.trace_ranks.length > 8 ? `${count(one.trace_ranks.length)} of ${count(ranks.length)}` : one.trace_ranks.join(", ");
  const rows = [...list].sort((a, b) => (b.values.length > 1) - (a.values.length > 1)).flatMap((fact) => fact.values.map((one) =>
    ({fact: fact.fact, value: one.value, trace_ranks: who(one), differs: fact.values.length > 1})));
  return sortableTable([{name: "fact", text: true, show: (row) => heading(row.fact)}, {name: "value", text: true}, {name: "trace_ranks", title: "ranks", text: true},
    {name: "differs", text: true, show: (row) => row.differs ? "differs" : ""}], rows, {label: "Facts of the run", marked: (row) => row.differs});
}
