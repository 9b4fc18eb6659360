import {absent} from "../absent.js";
import {chart, palette} from "../charts.js";
import {style} from "../colours.js";
import {report, steps, stragglers} from "../data.js";
import {count, duration} from "../format.js";

// Where step times change for good, as report.json tells.
function changeLines(lengths) {
  const changes = report.step_time.change_points ?? [];
  return changes.filter(({step}) => lengths[step - steps.first] !== undefined).map(({step, before_ns, after_ns}) =>
    ({xAxis: step - steps.first, label: {formatter: `${duration(before_ns)} to ${duration(after_ns)}`, color: style("--text")}, lineStyle: {color: palette[3], type: "solid"}}));
}

// The steps in which the one is late whom the verdict is about.
function lateSpans(lengths) {
  const last = steps.first + lengths.length - 1;
  return stragglers.slice(0, 1).filter((one) => one.first_step !== null && one.first_step <= last).map((one) =>
    [{name: `late: ${one.place || `rank ${one.trace_rank}`}`, xAxis: Math.max(0, one.first_step - steps.first)}, {xAxis: Math.min(lengths.length - 1, one.last_step - steps.first)}]);
}

export function stepTimes() {
  if (!steps) return report.delay.steps > 0 ? absent(`${count(report.delay.steps)} steps are too many for this page: table steps of store.h5.`)
    : absent("no steps are known: put an NVTX range around each, or name yours by --phase-map.", "torch.cuda.nvtx.range_push(\"step\") ... range_pop()");
  const lengths = steps.start_ns.map((start, step) => (steps.start_ns[step + 1] ?? steps.end_ns) - start);
  const median = report.step_time?.median_ns;
  return chart(() => ({
    grid: {left: 80, bottom: lengths.length > 200 ? 76 : 48}, tooltip: {trigger: "axis", axisPointer: {type: "shadow"}, valueFormatter: duration},
    dataZoom: lengths.length > 200 ? [{type: "slider", bottom: 8, height: 16}] : undefined,
    xAxis: {type: "category", name: "step", nameLocation: "middle", nameGap: 28, data: lengths.map((_, step) => String(steps.first + step))},
    yAxis: {type: "value", min: 0, axisLabel: {formatter: duration}},
    series: [{name: "step time", type: "bar", barCategoryGap: "15%", data: lengths,
      markLine: {symbol: "none", silent: true, data: [...(median ? [{yAxis: median, label: {formatter: `median ${duration(median)}`, position: "insideEndTop", color: style("--text")},
        lineStyle: {color: palette[5], type: "dashed"}}] : []), ...changeLines(lengths)]},
      markArea: {silent: true, itemStyle: {color: "rgba(184, 71, 107, 0.18)"}, label: {color: style("--text"), position: "insideTopLeft"}, data: lateSpans(lengths)}}],
  }), {height: 260, description: `Time of ${count(lengths.length)} steps`});
}
