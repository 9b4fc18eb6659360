#include "analysis/window/step_candidates.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

#include "analysis/trace/nvtx_ranges.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool is_step_word(std::string_view word) {
  return word == "iter" || word.ends_with("step") || word.ends_with("iteration") || word.ends_with("batch");
}

/// Text in brackets goes, but for numbers alone: "step[DECODE bs=32]" is "step[]", "iter[12]" stays.
std::string without_brackets(std::string_view text) {
  std::string kept;
  for (std::size_t i = 0; i < text.size(); ++i) {
    kept += text[i];
    const char close = text[i] == '[' ? ']' : text[i] == '(' ? ')' : '\0';
    const std::size_t end = close == '\0' ? std::string_view::npos : text.find(close, i + 1);
    if (end == std::string_view::npos) continue;
    const std::string_view inside = text.substr(i + 1, end - i - 1);
    if (!inside.empty() && std::all_of(inside.begin(), inside.end(), is_digit)) continue;
    kept += close;
    i = end;
  }
  return kept;
}

/// No program counts so far, and differences fit 32 bits.
constexpr std::int64_t largest_number = 1'000'000'000;

}  // namespace

RangeName read_range_name(std::string_view text) {
  constexpr std::size_t longest = 200;  // a longer text is data
  RangeName name;
  if (text.size() > longest) {
    name.stem = text.substr(0, longest);
    return name;
  }
  const std::string label = without_brackets(text);
  bool is_behind_word = false;
  for (std::size_t i = 0; i < label.size();) {
    const std::size_t begin = i;
    if (is_digit(label[i])) {
      while (i < label.size() && is_digit(label[i])) ++i;
      name.stem += '#';
      const auto number = integer_of(std::string_view(label).substr(begin, i - begin));
      const bool fits = number && *number <= largest_number;
      if (!is_behind_word) name.number = fits ? number : std::nullopt;
      is_behind_word = is_behind_word || name.names_step;
      continue;
    }
    while (i < label.size() && !is_digit(label[i])) ++i;
    const std::string_view words = std::string_view(label).substr(begin, i - begin);
    name.stem += words;
    for (const std::string& word : words_of(words)) {
      if (!is_step_word(word)) continue;
      name.names_step = true;
      is_behind_word = false;  // the number that follows is its own
    }
  }
  if (text.starts_with("execute_context_")) name.names_step = true;
  if (is_function_name(text)) name.names_step = false;
  name.is_of_profiler = name.stem == "ProfilerStep##";
  return name;
}

namespace {

/// Adds a range or mark that begins no earlier than those before it.
void add_range(const Interval& range, std::optional<std::int64_t> number, StepCandidate& candidate) {
  if (!candidate.may_be_steps()) return;
  if (!candidate.ranges.empty() && range.start_ns < candidate.ranges.back().end_ns) {
    if (range.end_ns <= candidate.ranges.back().end_ns) return;  // inside
    candidate.counts_on = candidate.names_step = false;          // what overlaps is no loop
    candidate.ranges = {};
    return;
  }
  if (candidate.ranges.empty()) {
    candidate.first_number = number.value_or(0);
  } else if (number && *number <= candidate.last_number) {
    candidate.restarts.push_back(candidate.ranges.size());
  } else if (number && *number > candidate.last_number + 1) {
    candidate.jumps.push_back({candidate.ranges.size(), *number - candidate.last_number - 1});
  }
  candidate.is_numbered = candidate.is_numbered && number.has_value();
  candidate.counts_on = candidate.is_numbered && candidate.restarts.empty();
  candidate.last_number = number.value_or(0);
  candidate.ranges.push_back(range);
  if (!candidate.may_be_steps()) candidate.ranges = {};
}

}  // namespace

std::size_t StepCandidate::restarts_after() const {
  std::vector<std::size_t> gaps;
  for (std::size_t i = 1; i < restarts.size(); ++i) gaps.push_back(restarts[i] - restarts[i - 1]);
  return gaps.empty() ? 0 : lower_median(gaps);
}

std::vector<StepCandidate> step_candidates(const RankEvents& events) {
  // Millions of ranges have hundreds of names: what a name tells is found out once. Ranges with the same string mostly
  // are of the same candidate.
  struct Label {
    std::optional<RangeName> name;
    std::string_view stem;
    std::uint32_t thread_id = 0;
    StringIndex domain = 0;
    NvtxKind kind = NvtxKind::push_pop;
    StepCandidate* latest = nullptr;
  };
  std::vector<Label> labels(events.trace.strings.size());
  using Key = std::tuple<std::string_view, std::uint32_t, StringIndex, NvtxKind>;
  std::map<Key, StepCandidate> candidates;
  std::map<std::string, std::size_t, std::less<>> stems;  // own the texts
  for (const NvtxRange& range : events.process.nvtx_ranges) {
    if (range.is_nccl_call) continue;
    Label& label = labels[range.text];
    if (!label.name) {
      label.name = read_range_name(events.trace.strings[range.text]);
      label.stem = stems.try_emplace(label.name->stem, stems.size()).first->first;
    }
    if (!label.name->names_step && (!label.name->number || range.kind == NvtxKind::mark)) continue;
    if (label.latest == nullptr || label.thread_id != range.thread_id || label.domain != range.domain ||
        label.kind != range.kind) {
      std::tie(label.thread_id, label.domain, label.kind) = std::tuple(range.thread_id, range.domain, range.kind);
      const auto [entry, is_new] = candidates.try_emplace(Key{label.stem, range.thread_id, range.domain, range.kind});
      label.latest = &entry->second;
      if (is_new) {
        entry->second.stem = std::string(label.stem);
        entry->second.names_step = label.name->names_step;
        entry->second.is_of_profiler = label.name->is_of_profiler;
      }
    }
    StepCandidate& candidate = *label.latest;
    if (range.kind == NvtxKind::mark && candidate.open_since_ns)
      add_range({*candidate.open_since_ns, range.start_ns}, candidate.open_number, candidate);
    if (range.end_ns == no_time) {
      candidate.open_since_ns = range.start_ns;
      candidate.open_number = label.name->number;
    } else {
      add_range({range.start_ns, range.end_ns}, label.name->number, candidate);
    }
  }
  std::vector<StepCandidate> all;
  for (auto& [key, candidate] : candidates)
    if (candidate.may_be_steps() && !candidate.ranges.empty()) all.push_back(std::move(candidate));
  return all;
}

}  // namespace nsys_explain::analysis
