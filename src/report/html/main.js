import {description, leftOut, report, rows, tableNames} from "./data.js";
import {count, node, short} from "./format.js";
import {followAddress, onNavigate, register} from "./navigate.js";
import {isAbsent} from "./absent.js";
import {plainTable} from "./table.js";
import {analyses} from "./views/analyses.js";
import {collectivePanel} from "./views/collective.js";
import {cases} from "./views/cases.js";
import {clocks} from "./views/clocks.js";
import {criticalPath, exposedCommunication} from "./views/critical.js";
import {facts} from "./views/facts.js";
import {heatmap} from "./views/heatmap.js";
import {keyFigures} from "./views/key_figures.js";
import {rankLanes} from "./views/lanes.js";
import {levels} from "./views/levels.js";
import {longest} from "./views/longest.js";
import {byteMatrix, waitMatrix} from "./views/matrices.js";
import {budget, communicators, hostProcesses, rankTable} from "./views/ranks.js";
import {stepBar} from "./views/step_bar.js";
import {stepTimes} from "./views/steps.js";
import {timeline} from "./views/timeline.js";
import {findings, headline, verdict} from "./views/verdict.js";

const view = (id, title, note, build) => ({id, title, note, build});
const analysis = (...ids) => ids.map((id) => analyses.find((one) => one.id === id));

const groups = [
  {id: "overview", title: "Overview", views: [
    view("verdict", "Verdict", "", verdict),
    view("step-bar", "Where a step goes", "Every nanosecond of a rank once, divided by the steps.", stepBar),
    view("lateness", "Who is late when", "Own lateness: what a rank worked longer than its peers before a collective. Red numbers: late ranks.", () => heatmap({glance: true})),
    view("findings", "Findings", "What saves most time comes first.", findings),
    view("steps", "Step times", "From the start of one step to that of the next.", stepTimes),
    view("figures", "Key figures", "", keyFigures)]},
  {id: "moments", title: "Timeline", views: [
    view("lanes", "Every rank in a step", "On the job's clock: who computes while the others wait.", rankLanes),
    view("timeline", "A moment in detail", "What the late rank, a median peer and those that waited longest did, one step around the moment, on the job's clock.", timeline),
    view("longest", "The longest operations", "Kernels, copies and graphs of the ranks of a moment, in order of time.", longest)]},
  {id: "waiting", title: "Waiting", views: [
    view("heat", "Who waits when", "Sums over the collectives that ended in each span of time, on the job's clock.", heatmap),
    view("cases", "Why they are late", "The costliest collectives that a late rank delayed, and single long waits: the last one's work before them against that of a median peer. The link opens the collective.", cases),
    view("collective", "One collective", "Who came when on the job's clock, who was waited for, and what the late one did before.", collectivePanel),
    view("waits", "Who waits for whom", "Whose delays cost whom how much, directly or through others.", waitMatrix)]},
  {id: "places", title: "Ranks", views: [
    ...(rows("host_processes").length === 0 ? [] : [view("processes", "Processes without GPU work",
      "They are no ranks: nothing rests on them, and who of them is late is not known. Their numbers stand for ranks in the tables.", hostProcesses)]),
    view("ranks", "Ranks", "Own lateness is not passed on from others; caused wait is what the others would not have waited without it. Late ranks are marked.", rankTable),
    view("levels", "By level", "Sums over the ranks of each node, rail, rack, pipeline stage, tensor and data index, as far as they are known. Places that the verdict names are marked.", levels),
    view("communicators", "Communicators", "Evidence says what brought the members together.", communicators)]},
  {id: "time", title: "GPU time", views: [
    view("budget", "Where the time went", "Unions of GPU activity between the first start and the last end of every rank; the parts add up to its window.", budget),
    view("critical", "Critical path", "What the end of the run waited for, from the last activity back to the first, by step and kind.", criticalPath),
    view("exposed", "Communication without compute", "What the collective did meanwhile; the table says why no compute ran.", exposedCommunication),
    ...analysis("step-budget", "categories", "idle", "utilisation", "concurrency", "phases", "coverage")]},
  {id: "kernel", title: "Kernels", views: analysis("kernels", "strips", "roofline", "latency", "host")},
  {id: "network", title: "Network", views: [...analysis("bandwidth", "slack", "nvlink"),
    view("bytes", "Bytes from rank to rank", "From sends and receives whose peer and size were recorded.", byteMatrix)]},
  {id: "run", title: "Run", views: [
    view("clocks", "Clocks", "One correction per session; uncertainty is one standard uncertainty.", clocks),
    view("facts", "What it ran on", "As the exports tell it; where the ranks differ, it is marked.", facts),
    view("warnings", "Warnings", "Recorded in the traces, or met by the analysis.", warnings)]},
  {id: "store", title: "Tables", views: [
    view("tables", "Tables", "What the views rest on. Tables that are too long for this page are complete in store.h5 and with --csv.", tables)]},
];

function warnings() {
  return report.warnings.length === 0 ? node("p", {class: "note"}, "None.")
    : node("ul", {}, report.warnings.map((one) => node("li", {}, node("strong", {}, one.severity), ` (${one.source}, ${count(one.count)} times) ${one.message}`)));
}

function tables() {
  const [held, none] = [tableNames().filter((name) => rows(name).length > 0), tableNames().filter((name) => rows(name).length === 0)];
  return node("div", {}, held.map((name) => {
    const place = node("div");
    const details = node("details", {class: "finding", id: `tables-${name}`, ontoggle: () => {
      if (details.open && !place.hasChildNodes()) place.append(plainTable(name));
    }}, node("summary", {}, node("code", {}, name), `: ${description(name)}${leftOut(name) > 0 ? ` (${count(leftOut(name))} rows only in the store)` : ""}`), place);
    return details;
  }), none.length > 0 ? node("p", {class: "note"}, `Empty for these traces: ${none.join(", ")}.`) : null);
}

// A view that fails says so in its place and leaves the others alone.
function bodyOf({id, build}) {
  try {
    return build();
  } catch (error) {
    console.error(id, error);
    return node("p", {class: "empty"}, `This view could not be drawn: ${error.message}`);
  }
}

const main = document.getElementById("main");
main.append(headline());

// A group is made when it is first seen. What the traces do not hold is one line at its end.
function build(group) {
  const absent = [];
  const place = node("div", {class: "group", id: group.id});
  for (const one of group.views) {
    const body = bodyOf(one);
    if (isAbsent(body)) {
      body.id = one.id;
      body.prepend(node("strong", {}, one.title), ": ");
      absent.push(body);
    } else if (one.id === "verdict") {
      body.id = one.id;
      place.append(body);
    } else {
      place.append(node("section", {id: one.id, "aria-labelledby": `${one.id}-title`}, node("h2", {id: `${one.id}-title`}, one.title),
        one.note ? node("p", {class: "note"}, one.note) : null, body));
    }
  }
  if (absent.length > 0) place.append(node("section", {class: "absent", "aria-label": "Not in these traces"}, node("h2", {}, "Not in these traces"), absent));
  group.place = place;
  main.append(place);
}

const contents = document.getElementById("contents");
for (const group of groups) {
  group.link = node("a", {href: `#${group.id}`}, group.title);
  group.entry = node("li", {}, group.link, group.views.length < 2 ? null : node("ul", {}, group.views.map((one) => node("li", {}, node("a", {href: `#${one.id}`}, one.title)))));
  register(group.id, group.title, group);
  for (const one of group.views) register(one.id, one.title, group);
}
contents.append(node("ul", {}, groups.map((group) => group.entry)));

function show(group = groups[0], id = "") {
  if (!group.place) build(group);
  for (const other of groups) {
    if (other.place) other.place.hidden = other !== group;
    other.entry.classList.toggle("current", other === group);
  }
  group.link.setAttribute("aria-current", "page");
  for (const other of groups) if (other !== group) other.link.removeAttribute("aria-current");
  const target = id && id !== group.id && id !== "main" ? document.getElementById(id) : null;
  if (target?.tagName === "DETAILS") target.open = true;
  if (target) target.scrollIntoView();
  else window.scrollTo(0, 0);
}

// All of the page for whoever prints it.
window.addEventListener("beforeprint", () => {
  for (const group of groups) {
    if (!group.place) build(group);
    group.place.hidden = false;
  }
});

// Browser tabs of several reports differ by what the user calls them, else by the directory of their traces, and by what is wrong.
function title() {
  const directories = report.inputs.map((input) => input.path.split("/").slice(0, -1));
  const shared = directories.reduce((one, other) => one.slice(0, one.findIndex((part, i) => part !== other[i]) < 0 ? one.length : one.findIndex((part, i) => part !== other[i])), directories[0] ?? []);
  return [short(report.verdict.text, 70), report.title ?? shared.at(-1), "nsys-explain-mpi"].filter((part) => part).join(" - ");
}

document.title = title();
onNavigate(show);
followAddress();
document.getElementById("footer").append(`nsys-explain-mpi ${report.run.tool_version}, ${report.run.date_utc}. Everything shown here is in report.json and store.h5 beside this file.`);
document.documentElement.dataset.ready = "yes";
