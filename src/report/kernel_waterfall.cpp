#include "report/comparison_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace nsys_explain::report {
namespace {

/// Shares of kernel time, in percent, that a reader can choose.
constexpr std::array thresholds = {50, 80, 90, 95, 100};
constexpr int first_threshold = 90;
constexpr std::size_t most_kernels = 100;

struct Bar {
  std::string name;
  double now_ns = 0, base_ns = 0;
  double before_ns = 0;  ///< all bars above it
};

/// By time now, then by time in the base, per basis of the comparison.
std::vector<Bar> bars_of(const Comparison& comparison) {
  std::map<std::string, Bar> by_name;
  const RunProfile &current = comparison.current(), &base = comparison.base();
  for (const MeanTime& kernel : current.kernels)
    by_name[kernel.name].now_ns = kernel.mean_ns / comparison.amount(current);
  for (const MeanTime& kernel : base.kernels) by_name[kernel.name].base_ns = kernel.mean_ns / comparison.amount(base);
  std::vector<Bar> bars;
  for (auto& [name, bar] : by_name) {
    bars.push_back(bar);
    bars.back().name = name;
  }
  std::stable_sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) {
    return std::pair(a.now_ns, a.base_ns) > std::pair(b.now_ns, b.base_ns);
  });
  for (std::size_t b = 1; b < bars.size(); ++b) bars[b].before_ns = bars[b - 1].before_ns + bars[b - 1].now_ns;
  return bars;
}

/// The number of bars that reach a share of the time of all.
std::size_t bars_until(const std::vector<Bar>& bars, double whole_ns, int percent) {
  if (percent == 100) return bars.size();
  const auto reached =
      std::find_if(bars.begin(), bars.end(), [&](const Bar& bar) { return bar.before_ns >= whole_ns * percent / 100; });
  return static_cast<std::size_t>(reached - bars.begin());
}

std::string chooser(const std::vector<Bar>& bars, double whole_ns) {
  std::string choices = "<fieldset><legend>Kernels until they hold</legend>";
  std::string told;
  for (const int percent : thresholds) {
    choices += fmt::format("<label><input type=\"radio\" name=\"until\" id=\"until-{0}\"{1}> {0}%</label> ", percent,
                           percent == first_threshold ? " checked" : "");
    const std::size_t shown = bars_until(bars, whole_ns, percent);
    const double reached = shown == 0 ? 0 : bars[shown - 1].before_ns + bars[shown - 1].now_ns;
    told += fmt::format("<p class=\"told at-{}\">{} of {} kernels hold {:.1f}% of {} of kernel time.</p>", percent,
                        shown, bars.size(), 100 * reached / whole_ns, time_of(whole_ns));
  }
  return choices + "</fieldset>" + told;
}

std::string row_of(const Bar& bar, std::size_t place, const std::vector<std::size_t>& shown, double scale_ns,
                   double whole_ns) {
  std::string hidden;
  for (std::size_t t = 0; t < thresholds.size(); ++t)
    if (place >= shown[t]) hidden += fmt::format(" over-{}", thresholds[t]);
  Change change;
  if (bar.base_ns > 0) change.base = bar.base_ns;
  if (bar.now_ns > 0) change.current = bar.now_ns;
  const auto box = [&](const char* kind, double time_ns) {
    return fmt::format("<i class=\"{}\" style=\"margin-left:{:.3f}%;width:{:.3f}%\"></i>", kind,
                       100 * bar.before_ns / scale_ns, 100 * time_ns / scale_ns);
  };
  return fmt::format(
      "<tr class=\"kernel{}\"><td>{}</td><td class=\"sum\"><div aria-hidden=\"true\">{}{}</div></td><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}%</td></tr>\n",
      hidden, html_text(bar.name), box("now", bar.now_ns), box("was", bar.base_ns), time_of(change.current),
      time_of(change.base), change_text(change), 100 * (bar.before_ns + bar.now_ns) / whole_ns);
}

}  // namespace

std::string kernel_waterfall(const Comparison& comparison) {
  if (comparison.side_by_side) return {};
  std::vector<Bar> bars = bars_of(comparison);
  if (bars.empty()) return {};
  const double whole_ns = bars.back().before_ns + bars.back().now_ns;
  if (whole_ns <= 0) return {};
  double scale_ns = whole_ns;
  for (const Bar& bar : bars) scale_ns = std::max(scale_ns, bar.before_ns + bar.base_ns);
  std::vector<std::size_t> shown;
  for (const int percent : thresholds) shown.push_back(bars_until(bars, whole_ns, percent));
  std::string out = fmt::format(
      "<details id=\"waterfall\"><summary>Kernels by time, and before</summary>\n<p class=\"note\">Mean over ranks, per {}; each bar begins where the one above ends. <i class=\"now\"></i> now <i class=\"was\"></i> before</p>\n{}<div class=\"wide\"><table><thead><tr><th scope=\"col\">kernel</th><th scope=\"col\"></th><th scope=\"col\">now</th><th scope=\"col\">before</th><th scope=\"col\">change</th><th scope=\"col\">added up</th></tr></thead><tbody>\n",
      basis_name(comparison.basis), chooser(bars, whole_ns));
  for (std::size_t b = 0; b < std::min(bars.size(), most_kernels); ++b)
    out += row_of(bars[b], b, shown, scale_ns, whole_ns);
  out += "</tbody></table></div>\n";
  if (bars.size() > most_kernels)
    out += fmt::format("<p class=\"note\">{} more kernels are in compare.json.</p>\n", bars.size() - most_kernels);
  return out + "</details>\n";
}

std::string waterfall_style() {
  std::string style =
      "details{margin:.6rem 0}summary{cursor:pointer;font-weight:600}fieldset{border:0;padding:0;margin:.4rem 0}fieldset legend{float:left;margin-right:.8rem}fieldset label{margin-right:.8rem}.told{display:none;margin:.2rem 0}td.sum{width:40%;min-width:12rem}td.sum i{display:block}.now{background:#3b7dd8;height:.7rem}.was{background:repeating-linear-gradient(135deg,#8b8f97 0 3px,transparent 3px 5px);height:.35rem;border-bottom:1px solid #8b8f97}.roofs{max-width:40rem;width:100%;display:block}.roofs text{font-size:11px;fill:currentColor}.roof{fill:none;stroke:currentColor;stroke-dasharray:5 4}circle.now{fill:#3b7dd8}circle.was{fill:none;stroke:#b8476b;stroke-width:2}.note i{display:inline-block;width:1.2rem;margin:0 .2rem 0 .8rem}";
  for (const int percent : thresholds)
    style += fmt::format(
        "#waterfall:has(#until-{0}:checked) .over-{0}{{display:none}}#waterfall:has(#until-{0}:checked) .at-{0}{{display:block}}",
        percent);
  return style;
}

ComparisonSection key_figures_section(const Comparison& comparison) {
  ComparisonSection table{.title = "Key figures",
                          .titles = {fmt::format("per {}, mean over ranks", basis_name(comparison.basis))},
                          .run_columns = comparison.runs.size()};
  for (const RunProfile& run : comparison.runs) table.titles.push_back(run.name);
  const bool is_judged = !comparison.side_by_side;
  if (is_judged) table.titles.emplace_back("change");
  const auto add = [&](const char* figure, const auto& value_of, const auto& text_of) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.emplace_back(figure);
    for (const RunProfile& run : comparison.runs) row.push_back(text_of(value_of(run)));
    return is_judged ? &row : nullptr;
  };
  const auto add_time = [&](const char* figure, const auto& value_of) {
    auto* const row = add(figure, value_of, time_of);
    if (row == nullptr) return;
    Change change;
    change.base = value_of(comparison.base());
    change.current = value_of(comparison.current());
    row->push_back(change.base || change.current ? change_text(change) : "-");
  };
  const auto per_basis = [&](const RunProfile& run, std::optional<double> time) {
    if (time) *time /= comparison.amount(run);
    return time;
  };
  add_time("GPU time", [&](const RunProfile& run) -> std::optional<double> {
    const auto window = run.mean_ns("window_ns"), idle = run.mean_ns("idle_ns");
    return window && idle ? per_basis(run, *window - *idle) : std::nullopt;
  });
  add_time("CPU time (no GPU work)", [&](const RunProfile& run) {
    return per_basis(run, run.outside_gpu_ns ? run.outside_gpu_ns : run.mean_ns("idle_ns"));
  });
  const auto as_it_is = [](std::string text) { return text; };
  const auto limit_of = [](const RunProfile& run) {
    const auto window = run.mean_ns("window_ns");
    if (run.budget.empty() || !window || *window <= 0) return std::string("not known");
    return fmt::format("{} ({:.1f}%)", run.budget.front().name, 100 * run.budget.front().mean_ns / *window);
  };
  const auto frameworks_of = [](const RunProfile& run) {
    return run.frameworks.empty() ? std::string("none") : fmt::format("{}", fmt::join(run.frameworks, "; "));
  };
  if (auto* const row = add("limited by", limit_of, as_it_is))
    row->push_back(limit_of(comparison.base()) == limit_of(comparison.current()) ? "same" : "");
  if (auto* const row = add("frameworks seen", frameworks_of, as_it_is))
    row->push_back(comparison.base().frameworks == comparison.current().frameworks ? "same" : "differs");
  return table;
}

namespace {

constexpr double width = 640, height = 300, left = 46, bottom = 34, top = 10;
constexpr double least_percent = 0.1;  ///< of the peak of compute: lower ones lie on the axis

/// Powers of ten that the ratios of all kernels lie between, with the ridge among them.
struct Axis {
  int from = -1, to = 1;  ///< powers of ten
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
      axis.from = std::min(axis.from, static_cast<int>(std::floor(std::log10(use.ratio()))));
      axis.to = std::max(axis.to, static_cast<int>(std::ceil(std::log10(use.ratio()))));
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
  for (int power = axis.from; power <= axis.to; ++power)
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
