#include "analysis/links/link_peaks.hpp"

#include <charconv>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"

namespace nsys_explain::analysis {
namespace {}  // namespace

const std::vector<LinkPeak>& known_link_peaks() {
  static const std::vector<LinkPeak> peaks{
      {"GB300", 900},    {"GB200", 900},     {"B300", 900}, {"B200", 900},  // NVLink 5: 1.8 TB/s, product pages
      {"GH200", 450},    {"H200", 450},                                     // 900 GB/s, data sheets; also H200 NVL
      {"H100 NVL", 300}, {"H100 PCIe", 300},                                // 600 GB/s by bridges, data sheet of H100
      {"H100", 450},     {"H800", 200},      {"H20", 450},                  // 900; 400 by export rules; 900 GB/s
      {"A100", 300},     {"A800", 200},                                     // 600 GB/s, data sheet; 400, product page
      {"V100", 150},                                                        // 300 GB/s, data sheet of V100
      {"A6000", 56.25},  {"A40", 56.25},     {"A30", 100},  // 112.5 and 200 GB/s by a bridge, data sheets
  };
  return peaks;
}

std::vector<LinkPeak> parse_link_peaks(std::string_view text) {
  std::vector<LinkPeak> peaks;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    double gbs = 0;
    const auto [rest, problem] = std::from_chars(line.data(), line.data() + line.size(), gbs);
    const std::string_view name = trimmed(line.substr(static_cast<std::size_t>(rest - line.data())));
    if (problem != std::errc() || !(gbs > 0 && gbs < 1e6) || name.empty()) {
      throw std::runtime_error(fmt::format(
          "line {} of the link peaks is not 'GBS NAME': '{}'; without it estimates would rest on the wrong peak; write for instance '450 NVIDIA H100'",
          number, line));
    }
    peaks.push_back({std::string(name), gbs});
  }
  return peaks;
}

std::optional<double> nvlink_peak_gbs(const std::vector<LinkPeak>& own, std::string_view gpu_name) {
  for (const auto* peaks : {&own, &known_link_peaks()}) {
    for (const LinkPeak& peak : *peaks) {
      if (gpu_name.find(peak.gpu_name_part) != std::string_view::npos) return peak.nvlink_gbs;
    }
  }
  return std::nullopt;
}

}  // namespace nsys_explain::analysis
