#include "serve/history.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

constexpr std::array<std::string_view, 5> orders = {"date", "name", "saving", "severity", "step"};
constexpr std::array<std::string_view, 4> severities = {"info", "low", "medium", "high"};
constexpr std::size_t most_listed = 10'000;

std::string text_of(const Json& summary, const char* key) {
  const auto found = summary.find(key);
  return found != summary.end() && found->is_string() ? found->get<std::string>() : "";
}

double number_of(const Json& summary, const char* key) {
  const auto found = summary.find(key);
  return found != summary.end() && found->is_number() ? found->get<double>() : -1;
}

std::string lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::size_t count_of(const std::string& name, const std::string& text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value <= most_listed) return value;
  throw Refusal(400, fmt::format("{} is '{}'", name, beginning_of(text)), "so nobody can tell how many are meant",
                fmt::format("give a whole number up to {}", most_listed));
}

bool is_found(const Json& summary, const HistoryQuery& query) {
  const std::string name = text_of(summary, "name");
  if (!query.job.empty() && job_of(name) != query.job) return false;
  const std::string wanted = lowered(query.find);
  return lowered(name).find(wanted) != std::string::npos ||
         lowered(text_of(summary, "verdict")).find(wanted) != std::string::npos;
}

/// As a number and a text, of which one is used.
std::pair<double, std::string> key_of(const Json& summary, std::string_view order) {
  if (order == "saving") return {number_of(summary, "saved_share"), ""};
  if (order == "step") return {number_of(summary, "step_ns"), ""};
  if (order == "date") return {0, text_of(summary, "date_utc")};
  if (order == "name") return {0, text_of(summary, "name")};
  const auto severity = std::find(severities.begin(), severities.end(), text_of(summary, "severity"));
  return {static_cast<double>(severity - severities.begin()) * (severity == severities.end() ? -1 : 1), ""};
}

}  // namespace

HistoryQuery parse_history_query(const std::vector<std::pair<std::string, std::string>>& parameters) {
  HistoryQuery query;
  for (const auto& [name, value] : parameters) {
    if (name == "find") {
      query.find = value;
    } else if (name == "job") {
      query.job = value;
    } else if (name == "order") {
      const std::string_view order = std::string_view(value).substr(value.starts_with('-') ? 1 : 0);
      if (std::find(orders.begin(), orders.end(), order) == orders.end())
        throw Refusal(400, fmt::format("order is '{}'", beginning_of(value)), "so nobody can tell what comes first",
                      fmt::format("give one of {}, with '-' before it for the largest first", fmt::join(orders, ", ")));
      query.order = value;
    } else if (name == "limit") {
      query.limit = count_of(name, value);
    } else if (name == "offset") {
      query.offset = count_of(name, value);
    } else {
      throw Refusal(400, fmt::format("there is no parameter '{}'", beginning_of(name)),
                    "so nobody can tell what is asked for", "give find, job, order, limit or offset");
    }
  }
  return query;
}

History history_of(std::vector<Json> summaries, const HistoryQuery& query) {
  std::erase_if(summaries, [&](const Json& summary) { return !is_found(summary, query); });
  const bool descending = query.order.starts_with('-');
  const std::string_view order = std::string_view(query.order).substr(descending ? 1 : 0);
  std::sort(summaries.begin(), summaries.end(),
            [](const Json& a, const Json& b) { return text_of(a, "name") < text_of(b, "name"); });
  std::stable_sort(summaries.begin(), summaries.end(), [&](const Json& a, const Json& b) {
    const bool unreadable_a = a.contains("problem"), unreadable_b = b.contains("problem");
    if (unreadable_a || unreadable_b) return !unreadable_a && unreadable_b;
    return descending ? key_of(b, order) < key_of(a, order) : key_of(a, order) < key_of(b, order);
  });
  History history;
  history.matching = summaries.size();
  const std::size_t first = std::min(query.offset, summaries.size());
  const std::size_t end = first + std::min(query.limit, summaries.size() - first);
  history.summaries.assign(summaries.begin() + static_cast<std::ptrdiff_t>(first),
                           summaries.begin() + static_cast<std::ptrdiff_t>(end));
  return history;
}

std::string job_of(std::string_view name) {
  const auto is_of_run = [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_.:/TZ").find(c) != std::string_view::npos;
  };
  std::size_t end = name.size();
  while (end > 0 && is_of_run(name[end - 1])) --end;
  return std::string(end > 0 ? name.substr(0, end) : name);
}

}  // namespace nsys_explain::serve
