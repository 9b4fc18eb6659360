#include "analysis/trace/nvtx_ranges.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {
Parents nest_ranges(const NvtxRanges& ranges, Nanoseconds open_end_ns) {
  Parents parents(ranges.size(), no_parent);
  struct Open {
    std::uint32_t range;
    Nanoseconds end_ns;
  };
  RunMap<std::pair<std::uint32_t, StringIndex>, std::vector<Open>> stacks;  // by thread and domain
  for_each_outer_first(ranges, open_end_ns, [&](std::uint32_t i) {
    const NvtxRange range = ranges[i];
    if (range.kind != NvtxKind::push_pop) return;
    const Nanoseconds end_ns = end_of(range, open_end_ns);
    std::vector<Open>& stack = stacks[{range.thread_id, range.domain}];
    while (!stack.empty() && (stack.back().end_ns < end_ns || stack.back().end_ns <= range.start_ns)) stack.pop_back();
    if (!stack.empty()) parents[i] = stack.back().range;
    stack.push_back({i, end_ns});
  });
  return parents;
}

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

struct Words {
  std::vector<std::string> words;  ///< lower case, without numbers
  std::int64_t last_number = -1;
};

/// "ProfilerStep#12" -> profiler, step; 12.
Words split_words(std::string_view label) {
  Words result;
  for (std::size_t i = 0; i < label.size();) {
    const std::size_t begin = i;
    if (is_digit(label[i])) {
      while (i < label.size() && is_digit(label[i])) ++i;
      if (const auto number = integer_of(label.substr(begin, i - begin))) result.last_number = *number;
    } else if (is_upper(label[i]) || is_lower(label[i])) {
      std::string word;
      // A capital after a small letter begins the next word.
      while (i < label.size() &&
             (is_lower(label[i]) || (is_upper(label[i]) && (i == begin || is_upper(label[i - 1]))))) {
        word += is_upper(label[i]) ? static_cast<char>(label[i] - 'A' + 'a') : label[i];
        ++i;
      }
      result.words.push_back(std::move(word));
    } else {
      ++i;
    }
  }
  return result;
}

struct Keyword {
  std::string_view word;
  std::string_view phase;
};

// Earlier entries win: "optimizer step" is the optimizer's, "decode step" is decoding.
constexpr Keyword keywords[] = {
    {"optimizer", phase::optimizer}, {"optim", phase::optimizer}, {"prefill", phase::prefill},
    {"decode", phase::decode},       {"decoding", phase::decode}, {"backward", phase::backward},
    {"bwd", phase::backward},        {"forward", phase::forward}, {"fwd", phase::forward},
    {"step", phase::step},           {"iteration", phase::step},  {"iter", phase::step}};
constexpr std::size_t most_words = 4;  // a longer label tells of something else that happens in the phase

std::optional<RecognisedPhase> recognise_words(std::string_view label) {
  if (label.find("::") != std::string_view::npos || label.size() > 100) return std::nullopt;  // an operator's name
  const Words words = split_words(label);
  if (words.words.empty()) return std::nullopt;
  const bool is_short = words.words.size() <= most_words;
  for (const Keyword& keyword : keywords) {
    const bool begins = words.words.front() == keyword.word && (is_short || keyword.phase == phase::optimizer);
    const bool ends = words.words.back() == keyword.word && is_short;
    // "step" ends what it names ("train step 5"); "step scheduler" is another thing.
    const bool counts = keyword.phase == phase::step ? ends && words.words.size() <= 2 : begins || ends;
    if (counts) return RecognisedPhase{std::string(keyword.phase), words.last_number};
  }
  return std::nullopt;
}

/// "AddmmBackward0": autograd's name of an operator, not the backward pass.
bool is_autograd_node(std::string_view label) {
  const std::size_t mark = label.find("Backward");
  return mark != std::string_view::npos && mark > 0 && mark + 8 < label.size() && is_digit(label[mark + 8]);
}

}  // namespace

std::vector<std::string> words_of(std::string_view label) {
  return split_words(label).words;
}

bool is_function_name(std::string_view label) {
  return label.find("::") != std::string_view::npos || is_autograd_node(label);
}

RangeGroups group_ranges(const Trace& trace, const ProcessTrace& process) {
  constexpr std::uint32_t unknown = no_group;
  RangeGroups result;
  result.group_of.reserve(process.nvtx_ranges.size());
  // Every label is looked at once: numbers of names by string, of groups by (domain, style, name). Ranges with the
  // same string mostly are of the same group.
  struct Label {
    std::uint32_t name = unknown, latest_group = unknown;
  };
  std::vector<Label> labels(trace.strings.size());
  std::unordered_map<std::string_view, std::uint32_t> name_numbers;
  std::map<std::tuple<StringIndex, NvtxKind>, std::unordered_map<std::uint32_t, std::uint32_t>> numbers;
  for (const NvtxRange& range : process.nvtx_ranges) {
    if (range.kind == NvtxKind::mark) {
      result.group_of.push_back(no_group);
      continue;
    }
    Label& label = labels[range.text];
    if (label.name == unknown) {
      label.name =
          name_numbers
              .try_emplace(range_name(trace.strings[range.text]), static_cast<std::uint32_t>(name_numbers.size()))
              .first->second;
    }
    if (label.latest_group == unknown || result.groups[label.latest_group].domain != range.domain ||
        result.groups[label.latest_group].kind != range.kind) {
      const auto [entry, is_new] =
          numbers[{range.domain, range.kind}].try_emplace(label.name, static_cast<std::uint32_t>(result.groups.size()));
      if (is_new) result.groups.push_back({range.domain, range_name(trace.strings[range.text]), range.kind});
      label.latest_group = entry->second;
    }
    result.group_of.push_back(label.latest_group);
  }
  return result;
}

std::string_view range_style(NvtxKind kind) {
  return kind == NvtxKind::start_end ? "StartEnd" : "PushPop";
}

std::optional<RecognisedPhase> PhaseNames::recognise(std::string_view label) const {
  for (const PhaseRule& rule : rules_) {
    const auto match = rule.pattern.find(label);
    if (!match) continue;
    RecognisedPhase found{rule.phase, -1};
    if (match->first_group) {
      found.number = integer_of(*match->first_group).value_or(-1);
    } else {
      found.number = split_words(label).last_number;
    }
    return found;
  }
  if (is_autograd_node(label)) return std::nullopt;
  return recognise_words(label);
}

std::vector<PhaseRule> parse_phase_map(std::string_view text) {
  std::vector<PhaseRule> rules;
  for (const Line& line : significant_lines(text)) {
    const auto refuse = [&](std::string_view problem) {
      return std::runtime_error(fmt::format(
          "line {} of the phase map {}, so no range would be found by it; lines are 'PHASE PATTERN', for example: prefill ^execute_context",
          line.number, problem));
    };
    const std::size_t gap = line.text.find_first_of(" \t");
    if (gap == std::string::npos) throw refuse("has no pattern");
    const std::string pattern = line.text.substr(line.text.find_first_not_of(" \t", gap));
    try {
      rules.push_back({line.text.substr(0, gap), Regex(pattern)});
    } catch (const std::invalid_argument& error) {
      throw refuse(fmt::format("has '{}', which is not a regular expression ({})", pattern, error.what()));
    }
  }
  return rules;
}

}  // namespace nsys_explain::analysis
