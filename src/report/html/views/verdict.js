import {chartedRanks, identity, ranks, report, stragglers, tableNames, viewsOfTables} from "../data.js";
import {count, duration, heading, node, percent, significant} from "../format.js";
import {titleOf} from "../navigate.js";
import {holdsCollective, showCollective} from "./collective.js";
import {tellingCaseOf} from "./divergence.js";
import {viewOfFinding} from "./finding_views.js";
import {momentOf, showMoment} from "./timeline.js";

function gpuTime(ns) {
  return ns >= 3600e9 ? `${significant(ns / 3600e9, 3)} GPU-hours` : `${significant(ns / 1e9, 3)} GPU-seconds`;
}

// Not green while a finding is high or medium, something is missing, nothing was analysed, or too little could be judged.
function mood({severity, complete, judged_share: judged}) {
  const unjudged = ranks.length === 0 || (judged !== null && judged < 0.9);
  return severity === "high" ? "bad" : severity === "medium" || !complete || unjudged ? "warn" : "good";
}

// Above every group of views: what the report says.
export function headline() {
  return node("div", {class: `verdict ${mood(report.verdict)}`}, report.title ? node("p", {class: "note"}, report.title) : null, node("h1", {}, report.verdict.text));
}

export function verdict() {
  const {next, answers, do_next: steps} = report.verdict;
  const waits = ranks.reduce((sum, rank) => sum + rank.wait_ns, 0);
  const whole = ranks.reduce((sum, rank) => sum + rank.window_ns, 0);
  const inputs = (status) => report.inputs.filter((input) => input.status === status).length;
  const residual = report.clock.residual;
  const facts = [
    ["Ranks", `${count(ranks.length)} in ${count(report.inputs.length)} ${report.inputs.length === 1 ? "file" : "files"}`],
    ["Inputs", `${count(inputs("ok"))} ok, ${count(inputs("degraded"))} degraded, ${count(inputs("failed"))} failed`],
    ["Collectives", `${count(report.collectives.instances)} matched, ${count(report.collectives.complete)} complete`],
    ["Matched by", evidence()],
    ...(report.left_out ? [["Left out", report.left_out]] : []),
    ...(report.verdict.judged_share === null ? [] : [["Lateness could be seen in", `${percent(report.verdict.judged_share, 1)} of the time`]]),
    ...(report.host_processes.length === 0 ? [] : [["Processes without GPU work", node("a", {href: "#processes"}, count(report.host_processes.length))]]),
    ["Waiting in collectives", ranks.length === 0 ? "not known" : `${gpuTime(waits)} (${percent(waits, whole)})`],
    ["Clock residual", residual.held_out_p90_ns === null ? "not measured" : `90% below ${duration(residual.held_out_p90_ns)}`],
    ["Arrivals told apart", report.clock.smallest_skew_ns === null ? "-" : `everywhere from ${duration(report.clock.smallest_skew_ns)} on`],
    ["Sessions by clock", clockMethods()],
    ...(chartedRanks < ranks.length ? [["Pictures by rank", `${count(chartedRanks)} of ${count(ranks.length)}: those that stand out, others evenly; lists and store.h5 have all`]] : []),
  ];
  // What a reader should know before trusting it; folded where there is nothing of the kind.
  const lost = report.inputs.length - inputs("ok");
  const judged = report.verdict.judged_share;
  const troubles = [...(lost > 0 ? [`${count(lost)} of ${count(report.inputs.length)} inputs degraded or failed`] : []),
    ...(ranks.length === 0 ? ["no GPU work"] : []),
    ...(judged !== null && judged < 0.9 ? [`lateness could be seen in ${percent(judged, 1)} of the time only`] : [])];
  return node("section", {"aria-label": "Verdict"},
    node("div", {class: "next"}, next ? node("p", {}, node("strong", {}, "Next: "), next) : null,
      steps.length > 0 ? node("pre", {class: "commands"}, steps.map(({command, expect}) => `# ${expect}\n${command}\n`).join("")) : null,
      answers.length > 0 ? node("p", {class: "answers"}, answers.join(" ")) : null,
      stragglers.length > 0 ? node("ul", {}, stragglers.slice(0, 8).map(who)) : null),
    node("details", {class: "finding quality", open: troubles.length > 0}, node("summary", {}, `What this rests on: ${troubles.length === 0 ? `${count(report.inputs.length)} ${report.inputs.length === 1 ? "input" : "inputs"} ok, ${count(report.collectives.instances)} collectives matched` : troubles.join("; ")}`),
      node("dl", {class: "facts"}, facts.map(([name, fact]) => node("div", {}, node("dt", {}, name), node("dd", {}, fact))))));
}

// Who is late and where, with the ways to when and why. What it costs is said once, in the verdict and the findings.
function who(one) {
  const isRank = one.level === "gpu" || !one.place;
  const {host, gpu_name: gpu, device_id: device} = identity.get(one.trace_rank) ?? {};
  const at = isRank ? [host, gpu && `GPU ${device} (${gpu})`].filter((part) => part).join(", ")
    : `ranks ${one.trace_ranks.length > 8 ? `${one.trace_ranks.slice(0, 8).join(", ")}, ...` : one.trace_ranks.join(", ")}`;
  const steps = one.first_step === null ? "" : `, steps ${one.first_step} to ${one.last_step}`;
  return node("li", {}, node("a", {href: isRank ? `#ranks-${one.trace_rank}` : "#levels"}, isRank ? `Rank ${one.trace_rank}` : `${heading(one.level)} ${one.place}`),
    `: ${at}; ${one.pattern}${steps}; cause: ${heading(String(one.cause))}; `, node("a", {href: "#heat"}, "see when"), ", ", why(one), ", ", inTimeline([one.trace_rank], "see the timeline"));
}

// To the moment at which one of these trace ranks is late, or to a usual one.
function inTimeline(traceRanks, text) {
  const number = momentOf(traceRanks);
  return number < 0 ? null : node("a", {href: "#timeline", onclick: () => showMoment(number)}, text);
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
  return [...methods].map(([method, sessions]) => `${count(sessions)} by ${heading(method)}`).join(", ") || "-";
}

// Evidence as it is, with the tables that it names as links.
const tableName = new RegExp(`\\b(${tableNames().filter((name) => name.includes("_")).join("|") || "(?!)"})\\b`);

function linked(text) {
  return text.split(tableName).map((part, i) => i % 2 === 1 ? node("a", {href: `#tables-${part}`}, part) : part);
}

// Views of what happens at some time, so that it can be seen in the timeline.
const ofTime = new Set(["cases", "heat", "budget", "idle", "host", "latency", "strips"]);

function finding(one, place) {
  const {id, severity, title, evidence: lines, recommendation, saved_share: saved} = one;
  const view = viewOfFinding[id] ?? viewsOfTables[id];
  return node("details", {class: "finding", id: `findings-${id}-${place}`, open: place < 3},
    node("summary", {}, node("span", {class: `badge ${severity}`}, severity), title),
    recommendation ? node("p", {}, node("strong", {}, "Next: "), recommendation) : null,
    node("ul", {}, lines.map((line) => node("li", {}, linked(line)))),
    node("p", {}, view ? node("a", {href: `#${view}`}, `Evidence: ${titleOf(view) ?? view.replace("tables-", "table ")}`) : null, " ", ofTime.has(view) ? inTimeline(one.trace_ranks, "Timeline") : null,
      saved >= 0.0005 ? `. Mending it saves about ${percent(saved, 1)} of the elapsed time.` : null));
}

export function findings() {
  if (report.findings.length === 0) return node("p", {class: "note"}, ranks.length === 0 ? "None, as nothing is known of the GPUs." : "Nothing was found that is worth acting on.");
  return node("div", {}, report.findings.map(finding));
}
