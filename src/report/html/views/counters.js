import {chart, palette} from "../charts.js";
import {count, node, short, significant} from "../format.js";
import {sortableTable} from "../table.js";

// Kernels of one GPU under the roof that its own metrics draw: the busier of tensor cores and instruction issue against
// reads and writes of DRAM, all in percent of their peaks. Their ratio is the arithmetic intensity over that of the ridge,
// so no peak need be known: below 1 memory is the roof.

const units = {tensor_active: "tensor cores", sm_issue: "instruction issue"};

// A point for each kernel whose memory and compute were both sampled.
export function counterPoints(rows) {
  const kernels = new Map();
  for (const row of rows) {
    const key = `${row.trace_rank} ${row.name}`;
    kernels.set(key, {trace_rank: row.trace_rank, name: row.name, ...kernels.get(key), [row.counter]: row.mean_percent, [`${row.counter}_samples`]: row.samples});
  }
  return [...kernels.values()].filter((one) => one.dram_read !== undefined && one.dram_write !== undefined && Object.keys(units).some((unit) => one[unit] !== undefined))
    .map((one) => {
      const unit = (one.tensor_active ?? -1) >= (one.sm_issue ?? -1) ? "tensor_active" : "sm_issue";
      const memory = one.dram_read + one.dram_write;
      return {...one, unit, memory, compute: one[unit], intensity: one[unit] / memory, samples: Math.min(one.dram_read_samples, one[`${unit}_samples`])};
    }).filter(({memory, compute}) => memory > 0 && compute > 0);
}

const roofOf = ({intensity}) => intensity < 1 ? "memory" : "compute";

function picture(member, points) {
  const intensities = points.map(({intensity}) => intensity);
  const [least, most] = [Math.min(0.5, ...intensities) / 1.5, Math.max(2, ...intensities) * 1.5];
  const label = (one) => `${short(one.name, 70)}\n${units[one.unit]} ${significant(one.compute, 3)}%, DRAM ${significant(one.memory, 3)}% of their peaks, by ${count(one.samples)} samples: ${roofOf(one)} is the nearer roof`;
  return chart({
    legend: {}, tooltip: {formatter: ({data}) => data[2] ? label(data[2]) : ""},
    xAxis: {type: "log", min: least, max: most, name: "compute over DRAM, each in % of its peak", nameLocation: "middle", nameGap: 26, axisLabel: {formatter: (v) => significant(v, 2)}},
    yAxis: {type: "log", max: 100, name: "% of the peak of compute", nameTextStyle: {align: "left"}, axisLabel: {formatter: "{value}%"}},
    series: [...Object.entries(units).map(([unit, name], i) => ({name, type: "scatter", symbol: ["circle", "triangle"][i], symbolSize: 11, itemStyle: {color: palette[i]},
      data: points.filter((one) => one.unit === unit).map((one) => [one.intensity, one.compute, one])})),
    {name: "roof", type: "line", showSymbol: false, lineStyle: {type: "dashed"}, itemStyle: {color: palette[5]}, data: [[least, 100 * least], [1, 100], [most, 100]]}],
  }, {description: `Kernels of rank ${member} under the roof of its GPU, by the trace's own metrics`});
}

const percentages = (field) => ({name: field, show: (row) => `${significant(row[field], 3)}%`});

export function counterRoofline(member, points) {
  return node("div", {}, picture(member, points), sortableTable([{name: "name", text: true}, {name: "samples"}, {...percentages("compute"), title: "of compute's peak"},
    {name: "unit", text: true, show: (row) => units[row.unit]}, {...percentages("memory"), title: "of DRAM's peak"}, {name: "intensity", title: "ratio", show: (row) => significant(row.intensity, 3)},
    {name: "roof", title: "nearer roof", text: true, show: roofOf}], points, {label: `Kernels of rank ${member} under the roof`}));
}
