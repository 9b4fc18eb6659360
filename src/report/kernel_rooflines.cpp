#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "report/kernel_waterfall.hpp"

namespace nsys_explain::report {
namespace {

constexpr double width = 640, height = 300, left = 46, bottom = 34, top = 10;
constexpr double least_percent = 0.1;  ///< of the peak of compute: lower ones lie on the axis

/// Powers of ten that the ratios of all kernels lie between, with the ridge among them.
struct Axis {
  double from = -1, to = 1;
  double x(double ratio) const { return left + (width - left) * (std::log10(ratio) - from) / (to - from); }
  static double y(double percent) {
    const double share = std::log10(std::max(percent, least_percent) / least_percent) / std::log10(100 / least_percent);
    return height - bottom - (height - bottom - top) * share;
  }
};

Axis axis_of(const std::vector<const RunProfile*>& runs) {
  Axis axis;
  for (const RunProfile* run : runs) {
    for (const KernelUse& use : run->kernel_uses) {
      axis.from = std::min(axis.from, std::floor(std::log10(use.ratio())));
      axis.to = std::max(axis.to, std::ceil(std::log10(use.ratio())));
    }
  }
  return axis;
}

std::string text_at(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor, text);
}

std::string picture(const std::vector<const RunProfile*>& runs) {
  const Axis axis = axis_of(runs);
  std::string out = fmt::format(
      "<svg class=\"roofs\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Kernels under the roof of their GPU; the table has the figures\"><polyline class=\"roof\" points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"/>",
      width, height, left, Axis::y(100 * std::pow(10, axis.from)), axis.x(1), Axis::y(100),
      axis.x(std::pow(10, axis.to)), Axis::y(100));
  for (const double percent : {0.1, 1.0, 10.0, 100.0})
    out += text_at(left - 6, Axis::y(percent) + 4, "end", fmt::format("{}%", percent));
  for (double power = axis.from; power <= axis.to; ++power)
    out += text_at(axis.x(std::pow(10, power)), height - bottom + 16, power == axis.to ? "end" : "middle",
                   fmt::format("{:g}", std::pow(10, power)));
  out += text_at((left + width) / 2, height - 2, "middle", "compute over DRAM, each in % of its peak");
  for (const RunProfile* run : runs) {
    const bool is_now = run == runs.back();
    for (const KernelUse& use : run->kernel_uses)
      out += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>",
                         is_now ? "now" : "was", axis.x(use.ratio()), Axis::y(use.compute_percent), is_now ? 4 : 6,
                         html_text(use.name));
  }
  return out + "</svg>";
}

std::string cells_of(const KernelUse* use) {
  if (use == nullptr) return "<td>-</td><td>-</td><td>-</td>";
  return fmt::format("<td>{:.3g}%, {}</td><td>{:.3g}%</td><td>{}</td>", use->compute_percent, use->compute_unit,
                     use->memory_percent, use->ratio() < 1 ? "memory" : "compute");
}

}  // namespace

std::string kernel_rooflines(const Comparison& comparison) {
  if (comparison.side_by_side) return {};
  const std::vector<const RunProfile*> runs = {&comparison.base(), &comparison.current()};
  std::map<std::string, std::pair<const KernelUse*, const KernelUse*>> kernels;
  for (const KernelUse& use : runs[0]->kernel_uses) kernels[use.name].first = &use;
  for (const KernelUse& use : runs[1]->kernel_uses) kernels[use.name].second = &use;
  if (kernels.empty()) return {};
  std::string out = fmt::format(
      "<details id=\"roofline\"><summary>Kernels under the roof, and before</summary>\n<p class=\"note\">By the traces' own GPU metrics, mean over ranks. Filled: now; rings: before. Below 1 memory is the nearer roof.</p>\n{}<div class=\"wide\"><table><thead><tr><th scope=\"col\">kernel</th><th scope=\"col\">of compute's peak, now</th><th scope=\"col\">of DRAM's peak, now</th><th scope=\"col\">nearer roof, now</th><th scope=\"col\">of compute's peak, before</th><th scope=\"col\">of DRAM's peak, before</th><th scope=\"col\">nearer roof, before</th></tr></thead><tbody>\n",
      picture(runs));
  for (const auto& [name, uses] : kernels)
    out += fmt::format("<tr><td>{}</td>{}{}</tr>\n", html_text(name), cells_of(uses.second), cells_of(uses.first));
  return out + "</tbody></table></div>\n</details>\n";
}

}  // namespace nsys_explain::report
