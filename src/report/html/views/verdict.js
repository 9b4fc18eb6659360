import {ranks, report, stragglers} from "../data.js";
import {count, duration, heading, node, percent, significant} from "../format.js";
import {holdsCollective, showCollective} from "./collective.js";
import {tellingCaseOf} from "./divergence.js";
import {viewOfFinding} from "./finding_views.js";

function gpuTime(ns) {
  return ns >= 3600e9 ? `${significant(ns / 3600e9, 3)} GPU-hours` : `${significant(ns / 1e9, 3)} GPU-seconds`;
}

export function verdict() {
  const {text, severity, complete, next} = report.verdict;
  const mood = severity === "high" ? "bad" : severity === "medium" || !complete || report.collectives.unjudged * 2 > report.collectives.instances ? "warn" : "good";
  const waits = ranks.reduce((sum, rank) => sum + rank.wait_ns, 0);
  const whole = ranks.reduce((sum, rank) => sum + rank.window_ns, 0);
  const inputs = (status) => report.inputs.filter((input) => input.status === status).length;
  const residual = report.clock.residual;
  const facts = [
    ["Trace ranks", `${count(ranks.length)} in ${count(report.inputs.length)} ${report.inputs.length === 1 ? "file" : "files"}`],
    ["Inputs", `${inputs("ok")} ok, ${inputs("degraded")} degraded, ${inputs("failed")} failed`],
    ["Collectives", `${count(report.collectives.instances)} matched, ${count(report.collectives.complete)} complete`],
    ["Matched by", evidence()],
    ["Waiting", `${gpuTime(waits)} (${percent(waits, whole)})`],
    ["Delays cost", report.delay.attributed_ns > 0 ? `${gpuTime(report.delay.attributed_ns)}; ${significant(report.delay.gpu_hours_per_day, 3)} GPU-hours a day at this rate` : "nothing"],
    ["Clock residual", residual.held_out_p90_ns === null ? "not measured" : `90% below ${duration(residual.held_out_p90_ns)}`],
    ["Arrivals told apart", report.clock.smallest_skew_ns === null ? "-" : `everywhere from ${duration(report.clock.smallest_skew_ns)} on`],
    ["Sessions by clock", clockMethods()],
  ];
  const list = stragglers.slice(0, 8).map((one) => node("li", {},
    one.level === "gpu" || !one.place ? node("a", {href: `#rank-${one.trace_rank}`}, `Trace rank ${one.trace_rank}`)
      : node("a", {href: "#levels"}, `${heading(one.level)} ${one.place}`),
    ` (${one.pattern}, cause: ${heading(String(one.cause))}): its delays cost ${duration(one.delay_cost_ns)} of waiting, ` +
      `${duration(one.caused_wait_ns)} of it in the collectives to which it came late (${significant(one.gpu_hours_per_day, 3)} GPU-hours a day at this rate); `,
    node("a", {href: "#heat"}, "see when"), ", ", why(one)));
  return node("section", {id: "verdict", "aria-label": "Verdict"},
    node("div", {class: `verdict ${mood}`}, node("h1", {}, text), next ? node("p", {}, node("strong", {}, "Next: "), next) : null, list.length > 0 ? node("ul", {}, list) : null),
    node("dl", {class: "facts"}, facts.map(([name, fact]) => node("div", {}, node("dt", {}, name), node("dd", {}, fact)))));
}

// To the collective that tells most of it, with what it did before.
function why(straggler) {
  const telling = tellingCaseOf(straggler.trace_rank);
  if (telling === null || !holdsCollective(telling.instance)) return node("a", {href: "#cases"}, "see why");
  return node("a", {href: "#collective", onclick: () => showCollective(telling.instance)}, "see why");
}

// What brought the members of collectives together.
function evidence() {
  const instances = new Map();
  for (const one of report.communicators) {
    if (one.instances > 0) instances.set(one.evidence, (instances.get(one.evidence) ?? 0) + one.instances);
  }
  const all = [...instances.values()].reduce((sum, one) => sum + one, 0);
  return [...instances].map(([name, matched]) => `${heading(name)}${matched < all ? ` (${percent(matched, all)})` : ""}`).join(", ") || "-";
}

function clockMethods() {
  const methods = new Map();
  for (const session of report.clock.sessions) methods.set(session.method, (methods.get(session.method) ?? 0) + 1);
  return [...methods].map(([method, sessions]) => `${sessions} by ${heading(method)}`).join(", ") || "-";
}

export function findings() {
  const order = ["high", "medium", "low", "info"];
  const sorted = report.findings.map((finding, index) => ({finding, index}))
    .sort((a, b) => order.indexOf(a.finding.severity) - order.indexOf(b.finding.severity) || a.index - b.index);
  if (sorted.length === 0) return node("p", {class: "empty"}, "Nothing was found that is worth acting on.");
  return node("div", {}, sorted.map(({finding}, place) => {
    const view = viewOfFinding[finding.id];
    return node("details", {class: "finding", open: place < 3}, node("summary", {},
      node("span", {class: `badge ${finding.severity}`}, finding.severity), finding.title),
    node("ul", {}, finding.evidence.map((line) => node("li", {}, line))),
    finding.recommendation ? node("p", {}, node("strong", {}, "Next: "), finding.recommendation) : null,
    view ? node("p", {}, node("a", {href: `#${view}`}, "Show the evidence")) : null);
  }));
}
