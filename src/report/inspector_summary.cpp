#include "report/inspector_summary.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {
namespace {

struct InspectorSums {
  std::int64_t records = 0, keyed = 0, contradicting = 0, trace_ranks = 0;
  std::int64_t exchanges = 0, keyed_exchanges = 0, compared = 0, disagreeing = 0, largest_difference_ns = 0;
};

std::optional<InspectorSums> sum(const std::vector<Table>& tables) {
  const Table* keys = find_table(tables, "inspector_keys");
  if (keys == nullptr) return std::nullopt;
  const auto total = [&](const char* name) {
    const auto& values = column<std::int64_t>(*keys, name);
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  };
  const auto& ranks = column<std::int64_t>(*keys, "trace_rank");
  const std::set<std::int64_t> different(ranks.begin(), ranks.end());
  std::int64_t largest_ns = 0;
  for (const std::int64_t difference_ns : column<std::int64_t>(*keys, "largest_difference_ns"))
    largest_ns = std::max(largest_ns, std::abs(difference_ns));
  return InspectorSums{
      total("records"),   total("keyed"),           total("contradicting"), static_cast<std::int64_t>(different.size()),
      total("exchanges"), total("keyed_exchanges"), total("compared"),      total("disagreeing"),
      largest_ns};
}

}  // namespace

std::optional<Json> inspector_json(const std::vector<Table>& tables) {
  const auto sums = sum(tables);
  if (!sums) return std::nullopt;
  return Json{{"records", sums->records},
              {"keyed", sums->keyed},
              {"contradicting", sums->contradicting},
              {"trace_ranks", sums->trace_ranks},
              {"exchanges", sums->exchanges},
              {"keyed_exchanges", sums->keyed_exchanges},
              {"compared", sums->compared},
              {"disagreeing", sums->disagreeing},
              {"largest_difference_ns", sums->largest_difference_ns}};
}

std::string inspector_sentence(const std::vector<Table>& tables) {
  const auto sums = sum(tables);
  if (!sums) return {};
  std::string sentence = fmt::format("{} of {} took communicator and sequence number from logs of NCCL Inspector ({})",
                                     counted(sums->keyed, "arrival"), counted(sums->trace_ranks, "rank"),
                                     counted(sums->records, "record"));
  if (sums->contradicting > 0) {
    sentence += fmt::format(
        "; {} the trace, and no key was taken from {}",
        sums->contradicting == 1 ? "1 record contradicts" : format_count(sums->contradicting) + " records contradict",
        sums->contradicting == 1 ? "it" : "them");
  }
  sentence += ".";
  if (sums->exchanges > 0) {
    sentence += fmt::format(" {} of {} sends and receives told communicator and peer of their kernel.",
                            format_count(sums->keyed_exchanges), format_count(sums->exchanges));
  }
  if (sums->compared > 0) {
    sentence += fmt::format(
        " {} of {} took another time by the log than by the trace (beyond 30 us; the largest difference of all is {}).",
        format_count(sums->disagreeing), counted(sums->compared, "collective"),
        format_duration(sums->largest_difference_ns));
  }
  return sentence;
}

}  // namespace nsys_explain::report
