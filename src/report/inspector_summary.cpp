#include "report/inspector_summary.hpp"

#include <numeric>
#include <set>

#include <fmt/format.h>

#include "report/text.hpp"

namespace nsys_explain::report {
namespace {

struct InspectorSums {
  std::int64_t records = 0, keyed = 0, contradicting = 0, trace_ranks = 0;
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
  return InspectorSums{total("records"), total("keyed"), total("contradicting"),
                       static_cast<std::int64_t>(different.size())};
}

}  // namespace

std::optional<Json> inspector_json(const std::vector<Table>& tables) {
  const auto sums = sum(tables);
  if (!sums) return std::nullopt;
  return Json{{"records", sums->records},
              {"keyed", sums->keyed},
              {"contradicting", sums->contradicting},
              {"trace_ranks", sums->trace_ranks}};
}

std::string inspector_sentence(const std::vector<Table>& tables) {
  const auto sums = sum(tables);
  if (!sums) return {};
  std::string sentence = fmt::format("{} of {} took communicator and sequence number from logs of NCCL Inspector ({})",
                                     counted(sums->keyed, "arrival"), counted(sums->trace_ranks, "trace rank"),
                                     counted(sums->records, "record"));
  if (sums->contradicting > 0) {
    sentence += fmt::format(
        "; {} the trace, and no key was taken from {}",
        sums->contradicting == 1 ? "1 record contradicts" : format_count(sums->contradicting) + " records contradict",
        sums->contradicting == 1 ? "it" : "them");
  }
  return sentence + ".";
}

}  // namespace nsys_explain::report
