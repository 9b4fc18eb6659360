import {ranks, report} from "../data.js";
import {count, heading, node, short} from "../format.js";

// What the job ran on; a fact in which the trace ranks differ is marked and says who has what.
export function facts() {
  const list = report.run_facts ?? [];
  if (list.length === 0) return node("p", {class: "empty"}, "The exports say nothing about hardware and software.");
  const who = (one) => one.trace_ranks === null ? "all" : one.trace_ranks.length > 8 ? `${count(one.trace_ranks.length)} of ${count(ranks.length)}` : one.trace_ranks.join(", ");
  const rows = [...list].sort((a, b) => (b.values.length > 1) - (a.values.length > 1)).flatMap((fact) => fact.values.map((one, index) => {
    const differs = fact.values.length > 1;
    return node("tr", {class: differs ? "marked" : null}, node("th", {scope: "row", class: "text"}, index === 0 ? heading(fact.fact) : ""),
      node("td", {class: "text", title: short(one.value, 400)}, short(one.value, 90)), node("td", {class: "text"}, who(one)),
      node("td", {class: "text"}, differs && index === 0 ? "differs" : ""));
  }));
  return node("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Facts of the run"}, node("table", {},
    node("thead", {}, node("tr", {}, ["fact", "value", "trace ranks", ""].map((title) => node("th", {scope: "col", class: "text"}, title)))), node("tbody", {}, rows)));
}
