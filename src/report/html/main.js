import {description, leftOut, report, tableNames} from "./data.js";
import {count, node} from "./format.js";
import {plainTable} from "./table.js";
import {collectivePanel} from "./views/collective.js";
import {analyses} from "./views/analyses.js";
import {cases} from "./views/cases.js";
import {clocks} from "./views/clocks.js";
import {facts} from "./views/facts.js";
import {heatmap} from "./views/heatmap.js";
import {levels} from "./views/levels.js";
import {byteMatrix, waitMatrix} from "./views/matrices.js";
import {budget, communicators, rankTable} from "./views/ranks.js";
import {findings, verdict} from "./views/verdict.js";

const main = document.getElementById("main");
const contents = document.getElementById("contents");

// A view that fails says so in its place and leaves the others alone.
function add(id, title, note, build) {
  let body;
  try {
    body = build();
  } catch (error) {
    console.error(id, error);
    body = node("p", {class: "empty"}, `This view could not be drawn: ${error.message}`);
  }
  main.append(node("section", {id, "aria-labelledby": `${id}-title`}, node("h2", {id: `${id}-title`}, title), node("p", {class: "note"}, note), body));
  contents.append(node("a", {href: `#${id}`}, title));
}

main.append(verdict());
add("findings", "Findings", "Most severe first, then by cost; severity follows the share of the job's GPU time at stake.", findings);
add("heat", "Who waits when", "Sums over the collectives that ended in each span of time, on the job's clock.", heatmap);
add("collective", "One collective", "Who came when on the job's clock, who was waited for, and what the late one did before.", collectivePanel);
add("cases", "Why they are late", "The costliest collectives that a late trace rank delayed, and single long waits: the last one's work before them beside that of a median peer.", cases);
add("waits", "Who waits for whom", "Whose delays cost whom how much, directly or through others.", waitMatrix);
add("ranks", "Trace ranks", "Own lateness is not passed on from others; caused wait is what the others would not have waited without it. Late ranks are marked.", rankTable);
add("levels", "By level", "Sums over the trace ranks of each node, rail, rack, pipeline stage, tensor and data index, as far as they are known. Places that the verdict names are marked.", levels);
add("budget", "Where the time went", "Unions of GPU activity between the first start and the last end of every trace rank; the parts add up to its window.", budget);
add("communicators", "Communicators", "Evidence says what brought the members together.", communicators);
add("bytes", "Bytes from rank to rank", "From sends and receives whose peer and size were recorded.", byteMatrix);
for (const view of analyses) add(view.id, view.title, view.note, view.build);
add("clocks", "Clocks", "One correction per session; uncertainty is one standard uncertainty.", clocks);
add("facts", "What it ran on", "As the exports tell it; where the trace ranks differ, it is marked.", facts);

const more = tableNames();
if (more.length > 0) {
  add("tables", "Tables", "What the views rest on. Tables that are too long for this page are complete in store.h5 and with --csv.", () =>
    node("div", {}, more.map((name) => {
      const place = node("div");
      const details = node("details", {class: "finding", ontoggle: () => {
        if (details.open && !place.hasChildNodes()) place.append(plainTable(name));
      }}, node("summary", {}, node("code", {}, name), `: ${description(name)}${leftOut(name) > 0 ? ` (${count(leftOut(name))} rows only in the store)` : ""}`), place);
      return details;
    })));
}
add("warnings", "Warnings", "Recorded in the traces, or met by the analysis.", () => report.warnings.length === 0
  ? node("p", {class: "empty"}, "None.")
  : node("ul", {}, report.warnings.map((warning) => node("li", {}, node("strong", {}, warning.severity), ` (${warning.source}, ${count(warning.count)} times) ${warning.message}`))));
main.append(node("footer", {}, `nsys-explain-mpi ${report.run.tool_version}, ${report.run.date_utc}. Everything shown here is in report.json and store.h5 beside this file.`));
document.documentElement.dataset.ready = "yes";
