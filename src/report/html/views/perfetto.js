import {duration, node} from "../format.js";

// Hands the file of --perfetto to ui.perfetto.dev in a tab of its own and moves it to the moment. Nothing is uploaded: the
// tab reads the file in the browser. Its protocol: PING until PONG, then the trace, then the span in seconds of its time.

const address = "https://ui.perfetto.dev";
const seconds = (ns) => ns * 1e-9;

export function handOver(tab, buffer, {title, start_ns: start, end_ns: end}) {
  const ping = setInterval(() => tab.postMessage("PING", address), 100);
  window.addEventListener("message", function answer(event) {
    if (event.source !== tab || event.data !== "PONG") return;
    clearInterval(ping);
    window.removeEventListener("message", answer);
    tab.postMessage({perfetto: {buffer, title, keepApiOpen: true}}, address);
    tab.postMessage({perfetto: {timeStart: seconds(start), timeEnd: seconds(end), viewPercentage: 0.9}}, address);
  });
}

export function perfettoLink(moment) {
  const file = node("input", {type: "file", accept: ".gz,.json", "aria-label": "File of --perfetto"});
  const open = node("button", {type: "button", disabled: true, onclick: async () => {
    const tab = window.open(address);
    handOver(tab, await file.files[0].arrayBuffer(), moment);
  }}, "Open at this moment");
  file.addEventListener("change", () => { open.disabled = file.files.length === 0; });
  const span = `${duration(moment.start_ns).replace(" ", "")}/${duration(moment.end_ns).replace(" ", "")}`;
  return node("details", {class: "finding"}, node("summary", {}, "This moment in Perfetto, with all ranks"),
    node("p", {}, "Write the timeline, all of it or this part, then choose the file here:"),
    node("p", {}, node("code", {}, `nsys-explain-mpi TRACES --perfetto job.json.gz --perfetto-window ${span}`)),
    node("p", {class: "controls"}, file, open));
}
