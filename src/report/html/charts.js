// Charts by Apache ECharts: only the parts that are used. A chart is drawn when it first comes into view.

import * as echarts from "echarts/core";
import {BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart} from "echarts/charts";
import {DataZoomComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent, VisualMapComponent} from "echarts/components";
import {CanvasRenderer} from "echarts/renderers";
import {dark, style} from "./colours.js";
import {node} from "./format.js";

echarts.use([BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart, DataZoomComponent, GridComponent, LegendComponent, MarkLineComponent,
  TooltipComponent, VisualMapComponent, CanvasRenderer]);

export const palette = ["#3b7dd8", "#e07b39", "#3f9d6b", "#b8476b", "#7d5fc4", "#8b8f97", "#c9a227", "#2aa5a5"];
function themed(option) {
  const text = style("--text");
  const line = style("--line");
  const axis = (given) => given && [].concat(given).map((one) => ({
    nameTextStyle: {color: text}, axisLabel: {color: text, ...one.axisLabel}, axisLine: {lineStyle: {color: line}},
    splitLine: {lineStyle: {color: line}}, ...one, ...(one.axisLabel ? {axisLabel: {color: text, ...one.axisLabel}} : {}),
  }));
  return {
    animation: false, color: palette, textStyle: {color: text}, backgroundColor: "transparent",
    grid: {left: 70, right: 20, top: 36, bottom: 48, ...option.grid},
    tooltip: {backgroundColor: style("--raised"), borderColor: line, textStyle: {color: text}, confine: true,
      renderMode: "richText", ...option.tooltip},
    visualMap: option.visualMap && {textStyle: {color: text}, ...option.visualMap},
    legend: option.legend && {textStyle: {color: text}, top: 0, type: "scroll", ...option.legend},
    ...without(option, ["grid", "tooltip", "legend", "visualMap", "xAxis", "yAxis"]),
    xAxis: axis(option.xAxis), yAxis: axis(option.yAxis),
  };
}

function without(object, names) {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}

// A chart as a DOM node. `option`: ECharts', or a function that makes it where it depends on the theme. `description` is
// what a screen reader says.
export function chart(option, {height = 320, description = ""} = {}) {
  const element = node("div", {class: "chart", role: "img", "aria-label": description, tabindex: 0, style: `height:${height}px`});
  let instance = null;
  const draw = () => {
    if (instance === null) {
      instance = echarts.init(element, null, {renderer: "canvas"});
      new ResizeObserver(() => instance.resize()).observe(element);
    }
    instance.setOption(themed(typeof option === "function" ? option() : option), true);
    element.dataset.drawn = "yes";
  };
  const watcher = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) {
      watcher.disconnect();
      draw();
    }
  }, {rootMargin: "200px"});
  watcher.observe(element);
  dark.addEventListener("change", () => { if (instance) draw(); });
  return element;
}
