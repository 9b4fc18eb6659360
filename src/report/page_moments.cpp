#include "report/page_moments.hpp"

#include <map>
#include <tuple>
#include <utility>

namespace nsys_explain::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t shown_characters = 200;

/// Rows of one trace rank, from top to bottom.
enum class RowKind : std::uint8_t { waits, stream, ranges, calls };

RowKind row_of(TimelineKind kind) {
  switch (kind) {
    case TimelineKind::wait:
      return RowKind::waits;
    case TimelineKind::range:
      return RowKind::ranges;
    case TimelineKind::call:
      return RowKind::calls;
    default:
      return RowKind::stream;
  }
}

const char* row_name(RowKind kind) {
  switch (kind) {
    case RowKind::waits:
      return "waits";
    case RowKind::ranges:
      return "ranges";
    case RowKind::calls:
      return "calls";
    case RowKind::stream:
      break;
  }
  return "stream";
}

const char* colour_name(TimelineKind kind) {
  switch (kind) {
    case TimelineKind::compute:
      return "compute";
    case TimelineKind::communication:
      return "communication";
    case TimelineKind::copy:
      return "copy";
    case TimelineKind::graph:
      return "graph";
    case TimelineKind::range:
      return "range";
    case TimelineKind::call:
      return "call";
    case TimelineKind::wait:
      return "wait";
    case TimelineKind::counter:
      break;
  }
  return "counter";
}

/// Names with the kind of what they name, each once.
class PageNames {
 public:
  std::size_t number(const std::string& name, TimelineKind kind) {
    const auto [entry, is_new] = numbers_.try_emplace({name, kind}, numbers_.size());
    if (is_new) {
      names_.push_back(shortened(name));
      kinds_.push_back(colour_name(kind));
    }
    return entry->second;
  }
  Json json() && { return {{"name", std::move(names_)}, {"kind", std::move(kinds_)}}; }

 private:
  std::map<std::pair<std::string, TimelineKind>, std::size_t> numbers_;
  Json names_ = Json::array(), kinds_ = Json::array();
};

struct Row {
  Json start = Json::array(), duration = Json::array(), name = Json::array();
  Nanoseconds before_ns = 0;
};

Json rows_of(const Timeline& timeline, std::int32_t trace_rank, Nanoseconds first_ns, PageNames& names) {
  std::map<std::tuple<RowKind, std::uint32_t, std::uint16_t>, Row> rows;
  for (const TimelineEvent& event : timeline.events) {
    if (event.kind == TimelineKind::counter) continue;
    const auto [entry, is_new] = rows.try_emplace({row_of(event.kind), event.track_id, event.lane});
    Row& row = entry->second;
    if (is_new) row.before_ns = first_ns;
    row.start.push_back(event.start_ns - row.before_ns);
    row.duration.push_back(event.end_ns - event.start_ns);
    row.name.push_back(names.number(timeline.names[event.name], event.kind));
    row.before_ns = event.start_ns;
  }
  Json list = Json::array();
  for (auto& [key, row] : rows) {
    const auto& [kind, track, lane] = key;
    list.push_back({{"trace_rank", trace_rank},
                    {"kind", row_name(kind)},
                    {"track", track},
                    {"lane", lane},
                    {"start", std::move(row.start)},
                    {"duration", std::move(row.duration)},
                    {"name", std::move(row.name)}});
  }
  return list;
}

}  // namespace

std::string shortened(const std::string& text) {
  if (text.size() <= shown_characters) return text;
  std::size_t end = shown_characters;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // not within a character
  return text.substr(0, end) + "...";
}

Json moments_json(const std::vector<Moment>& moments) {
  PageNames names;
  Json list = Json::array();
  for (const Moment& moment : moments) {
    Json rows = Json::array();
    for (std::size_t r = 0; r < moment.timelines.size(); ++r) {
      for (Json& row : rows_of(moment.timelines[r], moment.trace_ranks[r], moment.window.start_ns, names))
        rows.push_back(std::move(row));
    }
    list.push_back({{"title", moment.title},
                    {"instance", moment.instance},
                    {"late_trace_rank", moment.late_trace_rank},
                    {"peer_trace_rank", moment.peer_trace_rank},
                    {"at_ns", moment.at_ns},
                    {"start_ns", moment.window.start_ns},
                    {"end_ns", moment.window.end_ns},
                    {"trace_ranks", moment.trace_ranks},
                    {"left_out", moment.left_out},
                    {"rows", std::move(rows)}});
  }
  return {{"names", std::move(names).json()}, {"list", std::move(list)}};
}

}  // namespace nsys_explain::report
