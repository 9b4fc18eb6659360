import {absent} from "../absent.js";
import {late} from "../data.js";
import {heading, node} from "../format.js";
import {sortableTable} from "../table.js";
import {holdsCollective, showCollective} from "./collective.js";
import {behind, byName, causeText, longWaits, stragglerCases} from "./divergence.js";

// The collectives before which somebody's work was compared with a peer's, and the most telling of them in full.
export function cases() {
  const list = [...stragglerCases, ...longWaits].sort((a, b) => b.caused_wait_ns - a.caused_wait_ns || a.instance - b.instance);
  if (list.length === 0) return absent("no rank is late, and no single wait is long.");
  const rows = list.map((row) => ({...row, behind_ns: behind(row), more_ns: row.part === "none" ? null : row[`${row.part}_ns`] - row[`peer_${row.part}_ns`]}));
  const link = (row) => holdsCollective(row.instance)
    ? node("a", {href: "#collective", onclick: () => showCollective(row.instance)}, `instance ${row.instance}`) : row.instance < 0 ? "not matched" : `instance ${row.instance}`;
  const yes = (row) => row.same_kernels ? "yes" : "no";
  const table = sortableTable([{name: "instance", title: "collective", text: true, show: link}, {name: "last_enter_ns", title: "at", unit: "ns"},
    {name: "trace_rank", title: "late rank"}, {name: "caused_wait_ns", title: "caused wait", unit: "ns"}, {name: "peer_trace_rank", title: "median peer"},
    {name: "behind_ns", title: "more work than the peer", unit: "ns"}, {name: "cause", title: "speaks for", text: true, show: causeText},
    {name: "part", title: "what differs most", text: true, show: (row) => row.part === "none" ? "-" : heading(row.part)},
    {name: "more_ns", title: "by", unit: "ns"}, {name: "same_kernels", title: "same kernels", text: true, show: yes}],
  rows, {label: "Delayed collectives", limit: 12, marked: (row) => late.has(row.trace_rank)});
  const compared = [...new Set(list.map((row) => row.trace_rank))].map(byName).filter((one) => one);
  return node("div", {}, table, compared);
}
