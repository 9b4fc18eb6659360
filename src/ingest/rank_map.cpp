#include <stdexcept>

#include <fmt/format.h>

#include "ingest/rank_resolution.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/regex.hpp"

namespace nsys_explain::ingest {
namespace {

[[noreturn]] void refuse(std::size_t line, std::string_view problem) {
  throw std::invalid_argument(fmt::format(
      "line {} of the rank map {}: ranks cannot be told from it; write PATTERN RANK or PATTERN PID DEVICE RANK", line,
      problem));
}

/// Fields between blanks; the first may stand in double quotes.
std::vector<std::string> split_fields(std::string_view text, std::size_t line) {
  constexpr std::string_view blanks = " \t\r\v\f";
  std::vector<std::string> fields;
  std::size_t at = 0;
  while (true) {
    at = text.find_first_not_of(blanks, at);
    if (at == std::string_view::npos || text[at] == '#') return fields;
    std::string field;
    if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        const bool escaped = text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == '"' || text[at + 1] == '\\');
        if (escaped) ++at;
        field += text[at];
      }
      if (at >= text.size()) refuse(line, "has a quote that does not end");
      ++at;
    } else {
      const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
      field = text.substr(at, end - at);
      at = end;
    }
    fields.push_back(std::move(field));
  }
}

std::int32_t parse_number(const std::string& field, std::string_view what, std::size_t line) {
  const auto number = parse_rank_number(field);
  if (!number) refuse(line, fmt::format("has {} for the {}, not a number from 0 on", shell_quoted(field), what));
  return *number;
}

std::optional<std::int32_t> parse_id(const std::string& field, std::string_view what, std::size_t line) {
  if (field == "*") return std::nullopt;
  return parse_number(field, what, line);
}

}  // namespace

std::optional<std::int32_t> parse_rank_number(std::string_view text) {
  const auto number = integer_of<std::int32_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

RankOverrides parse_rank_map(const std::string& text) {
  RankOverrides overrides;
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // byte order mark
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const auto fields = split_fields(next_part(rest), line);
    if (fields.empty()) continue;
    if (fields.size() != 2 && fields.size() != 4)
      refuse(line, fmt::format("has {} fields (a pattern with blanks needs double quotes)", fields.size()));
    if (fields[0].empty()) refuse(line, "has an empty pattern");
    RankOverrides::Entry entry;
    entry.pattern = fields[0];
    if (fields.size() == 4) {
      entry.process_id = parse_id(fields[1], "PID", line);
      entry.device_id = parse_id(fields[2], "DEVICE", line);
    }
    entry.rank = parse_number(fields.back(), "RANK", line);
    overrides.entries.push_back(std::move(entry));
  }
  return overrides;
}

void check_rank_regex(const std::string& regex) {
  if (regex.empty()) return;
  try {
    if (Regex(regex).group_count() > 0) return;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(
        fmt::format("the rank regex {} is not valid ({}): ranks cannot be told from it; correct it",
                    shell_quoted(regex), error.what()));
  }
  throw std::invalid_argument(fmt::format(
      "the rank regex {} has no capture group: it does not say which digits are the rank; put them in parentheses, as in 'rank_([0-9]+)'",
      shell_quoted(regex)));
}

std::vector<Warning> unused_entry_warnings(const RankOverrides& overrides,
                                           const std::vector<TraceRankIdentity>& identities) {
  std::int64_t unused = 0;
  const RankOverrides::Entry* first = nullptr;
  for (const auto& entry : overrides.entries) {
    bool used = false;
    for (const auto& identity : identities)
      used = used || entry_matches(entry, identity.key.path, identity.process_id, identity.key.device_id);
    if (used) continue;
    if (first == nullptr) first = &entry;
    ++unused;
  }
  if (first == nullptr) return {};
  return {
      {Severity::data_loss, WarningSource::analysis, unused,
       fmt::format(
           "{} of the rank map (first: {} for rank {}) match no trace rank: the ranks they were meant for keep other numbers; compare them with trace_ranks in report.json",
           unused == 1 ? "1 entry" : fmt::format("{} entries", unused), shell_quoted(first->pattern), first->rank)}};
}

}  // namespace nsys_explain::ingest
