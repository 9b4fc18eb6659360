// Charts by Apache ECharts: only the parts that are used. A chart is drawn when it first comes into view.

import * as echarts from "echarts/core";
import {BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart} from "echarts/charts";
import {DataZoomComponent, GridComponent, LegendComponent, MarkAreaComponent, MarkLineComponent, MarkPointComponent, TooltipComponent,
  VisualMapComponent} from "echarts/components";
import {CanvasRenderer} from "echarts/renderers";
import {dark, style} from "./colours.js";
import {node} from "./format.js";

echarts.use([BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart, DataZoomComponent, GridComponent, LegendComponent, MarkAreaComponent,
  MarkLineComponent, MarkPointComponent, TooltipComponent, VisualMapComponent, CanvasRenderer]);

// As many colours as the largest picture has kinds; neighbours differ in lightness, too.
export const palette = ["#3b7dd8", "#e07b39", "#3f9d6b", "#b8476b", "#7d5fc4", "#8b8f97", "#c9a227", "#2aa5a5", "#8c5a3c", "#d977b0", "#7fae2e", "#5668a8"];
// Fills that are told apart without their colour.
const decal = (more) => ({color: "rgba(255, 255, 255, 0.75)", ...more});
export const decals = {
  stripes: decal({symbol: "rect", dashArrayX: [1, 0], dashArrayY: [2, 4], rotation: -Math.PI / 4}),
  dots: decal({symbol: "circle", symbolSize: 0.6, dashArrayX: [[5, 5]], dashArrayY: [5, 3]}),
  lines: decal({symbol: "rect", dashArrayX: [1, 0], dashArrayY: [1, 4]}),
};
export const stripes = decals.stripes;
// Labels take at most this share of a chart's width; what is longer is cut.
const labelShare = 0.4;

function themed(option, width) {
  const text = style("--text");
  const line = style("--line");
  const left = Math.min(option.grid?.left ?? 70, Math.round(labelShare * width));
  const axis = (given, room) => given && [].concat(given).map((one) => ({
    nameTextStyle: {color: text}, axisLine: {lineStyle: {color: line}}, splitLine: {lineStyle: {color: line}}, ...one,
    axisLabel: {color: text, hideOverlap: true, ...(one.type === "category" && room ? {width: room, overflow: "truncate"} : {}), ...one.axisLabel},
  }));
  // A legend and the title of the axis both stand above the chart.
  const top = option.legend && [].concat(option.yAxis).some((one) => one?.name && one.nameLocation !== "middle") ? 58 : 36;
  return {
    animation: false, color: palette, textStyle: {color: text}, backgroundColor: "transparent",
    grid: {right: 20, top, bottom: 48, ...option.grid, left},
    tooltip: {backgroundColor: style("--raised"), borderColor: line, textStyle: {color: text}, confine: true,
      renderMode: "richText", ...option.tooltip},
    visualMap: option.visualMap && {textStyle: {color: text}, ...option.visualMap},
    legend: option.legend && {textStyle: {color: text}, top: 0, type: "scroll", pageTextStyle: {color: text}, ...option.legend},
    ...without(option, ["grid", "tooltip", "legend", "visualMap", "xAxis", "yAxis"]),
    xAxis: axis(option.xAxis), yAxis: axis(option.yAxis, left - 12),
  };
}

function without(object, names) {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}

// What charts with a place for every trace rank have in common: many can be zoomed into.
export function rankAxis(members) {
  const many = members.length > 40;
  return {grid: {bottom: many ? 76 : 48}, dataZoom: many ? [{type: "slider", bottom: 8, height: 16}] : undefined,
    xAxis: {type: "category", data: members.map(String), name: "rank", nameLocation: "middle", nameGap: 26}};
}

// A chart as a DOM node. `option`: ECharts', or a function that makes it where it depends on the theme. `description` is
// what a screen reader says.
export function chart(option, {height = 320, description = ""} = {}) {
  const element = node("div", {class: "chart", role: "img", "aria-label": description, tabindex: 0, style: `height:${height}px`});
  let instance = null;
  const draw = () => {
    if (instance === null) {
      instance = echarts.init(element, null, {renderer: "canvas"});
      new ResizeObserver(() => {
        if (instance.getWidth() === element.clientWidth) return;
        instance.resize();
        draw();
      }).observe(element);
    }
    instance.setOption(themed(typeof option === "function" ? option() : option, instance.getWidth()), true);
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
