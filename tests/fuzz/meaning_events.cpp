#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "fuzz/meaning.hpp"

/// The same for traces of PyTorch's profiler.
namespace nsys_explain::meaning {
namespace {

using Json = nlohmann::json;
using Events = std::vector<Json*>;

std::string text_of(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double time_of(const Json& event, const char* key = "ts") {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : 0;
}

/// Some of the events with these categories; with none, of all: none, one, a few, half, all, the early or the late
/// ones.
Events some_events(Json& trace, Draw& draw, const std::vector<std::string>& categories) {
  Events events;
  for (Json& event : trace["traceEvents"]) {
    if (!event.is_object()) continue;
    const std::string category = text_of(event, "cat");
    if (categories.empty() || std::find(categories.begin(), categories.end(), category) != categories.end())
      events.push_back(&event);
  }
  if (events.empty() || draw.percent(30)) return events;
  const std::size_t one = draw.below(events.size());
  const Json model = *events[one];
  const auto keep = [&](const auto& wanted) {
    Events kept;
    for (std::size_t i = 0; i < events.size(); ++i)
      if (wanted(i)) kept.push_back(events[i]);
    return kept;
  };
  switch (draw.below(7)) {
    case 0:
      return {events[one]};
    case 1:
      return keep([&](std::size_t i) { return i % 13 == one % 13; });
    case 2:
      return keep([&](std::size_t i) { return i % 2 == one % 2; });
    case 3:
      return keep([&](std::size_t i) { return time_of(*events[i]) < time_of(model); });
    case 4:
      return keep([&](std::size_t i) { return time_of(*events[i]) >= time_of(model); });
    case 5:
      return keep([&](std::size_t i) { return text_of(*events[i], "name") == text_of(model, "name"); });
    default:
      return keep([&](std::size_t i) { return events[i]->value("tid", Json()) == model.value("tid", Json()); });
  }
}

std::vector<std::string> some_categories(Draw& draw) {
  return draw.one_of<std::vector<std::string>>({{"kernel"},
                                                {"kernel"},
                                                {"cuda_runtime", "cuda_driver"},
                                                {"user_annotation", "gpu_user_annotation"},
                                                {"user_annotation"},
                                                {"cpu_op"},
                                                {"gpu_memcpy", "gpu_memset"},
                                                {"cuda_sync"},
                                                {"ac2g"},
                                                {"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver"},
                                                {}});
}

void sort_by_time(Events& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const Json* a, const Json* b) { return time_of(*a) < time_of(*b); });
}

void number_annotations(Json& trace, Draw& draw) {
  Events events = some_events(trace, draw, {draw.percent(80) ? "user_annotation" : "cpu_op"});
  sort_by_time(events);
  const std::string word = word_for_range(draw);
  const Counting& counting = way_of_counting(draw);
  for (std::size_t i = 0; i < events.size(); ++i)
    (*events[i])["name"] = word + counting.number(static_cast<std::int64_t>(i));
}

/// Steps where the trace has none, or others.
void add_annotations(Json& trace, Draw& draw) {
  Events events = some_events(trace, draw, {"kernel", "cuda_runtime", "cpu_op"});
  if (events.empty()) return;
  sort_by_time(events);
  const std::size_t count = 1 + draw.below(12);
  const double first = time_of(*events.front()), last = time_of(*events.back()),
               each = (last - first) / static_cast<double>(count);
  const double stretch = draw.one_of<double>({1, 1, 0.5, 0, 1.5, 4});
  const std::string word = word_for_range(draw),
                    category = draw.percent(80) ? "user_annotation" : "gpu_user_annotation";
  const Counting& counting = way_of_counting(draw);
  const Json model = *events[draw.below(events.size())];
  for (std::size_t i = 0; i < count; ++i) {
    trace["traceEvents"].push_back({{"ph", "X"},
                                    {"cat", category},
                                    {"name", word + counting.number(static_cast<std::int64_t>(i))},
                                    {"pid", model.value("pid", Json(1))},
                                    {"tid", model.value("tid", Json(1))},
                                    {"ts", first + each * static_cast<double>(i)},
                                    {"dur", each * stretch}});
  }
}

void name_kernels(Json& trace, Draw& draw) {
  const std::string word = word_for_kernel(draw);
  const std::uint64_t which = draw.below(3);
  for (Json* event : some_events(trace, draw, {"kernel"})) {
    const bool is_nccl = text_of(*event, "name").find("nccl") != std::string::npos;
    if (which == 2 || is_nccl == (which == 1)) (*event)["name"] = word;
  }
}

void name_calls(Json& trace, Draw& draw) {
  const std::string word = draw.one_of<std::string>(
      {"cudaLaunchKernel", "cudaGraphLaunch", "hipLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize",
       "cudaDeviceSynchronize", "cudaEventRecord", "cudaStreamWaitEvent", "hipGraphLaunch", "cuLaunchKernel", ""});
  for (Json* event : some_events(trace, draw, {"cuda_runtime", "cuda_driver"})) (*event)["name"] = word;
}

void change_categories(Json& trace, Draw& draw) {
  const std::string category =
      draw.one_of<std::string>({"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op", "user_annotation",
                                "gpu_user_annotation", "cuda_sync", "python_function", "ac2g", "Trace", ""});
  for (Json* event : some_events(trace, draw, some_categories(draw))) (*event)["cat"] = category;
}

void change_places(Json& trace, Draw& draw) {
  const std::string key = draw.one_of<std::string>({"pid", "tid", "stream", "device", "context"});
  const bool is_argument = key != "pid" && key != "tid";
  const auto value = draw.one_of<Json>({0, 1, 7, -1, 1000000, "stream 7", "", nullptr, "spark", 4294967296});
  const std::uint64_t kind = draw.below(3);
  std::int64_t n = 0;
  for (Json* event : some_events(trace, draw, some_categories(draw))) {
    Json& place = is_argument ? (*event)["args"] : *event;
    if (!place.is_object()) continue;
    place[key] = kind == 0 ? value : kind == 1 ? Json(n++ % 2) : Json(n++);
  }
}

void change_correlations(Json& trace, Draw& draw) {
  const std::string key =
      draw.one_of<std::string>({"correlation", "correlation", "External id", "wait_on_cuda_event_record_corr_id"});
  const std::uint64_t kind = draw.below(5);
  std::int64_t n = 0;
  for (Json* event : some_events(trace, draw, some_categories(draw))) {
    Json& arguments = (*event)["args"];
    if (!arguments.is_object()) continue;
    if (kind == 0) arguments.erase(key);
    if (kind == 1) arguments[key] = 1;
    if (kind == 2) arguments[key] = n++ / 4;
    if (kind == 3) arguments[key] = 0;
    if (kind == 4 && arguments[key].is_number_integer()) arguments[key] = arguments[key].get<std::int64_t>() + 1;
  }
}

void change_times(Json& trace, Draw& draw) {
  const Events events = some_events(trace, draw, some_categories(draw));
  if (events.empty()) return;
  const double shift = static_cast<double>(some_duration_ns(draw)) / 1000, some = time_of(*events.front());
  const double factor = draw.one_of<double>({0, 2, 40, 1e6, -1, 0.001});
  const std::uint64_t kind = draw.below(9);
  for (Json* event : events) {
    if (!event->contains("ts")) continue;
    const double start = time_of(*event), length = time_of(*event, "dur");
    if (kind == 0) (*event)["dur"] = 0;
    if (kind == 1 || kind == 2) (*event)["ts"] = start + shift;
    if (kind == 3) (*event)["dur"] = length * factor;
    if (kind == 4) event->erase("dur");
    if (kind == 5) (*event)["ts"] = some;
    if (kind == 6) (*event)["ts"] = start + length, (*event)["dur"] = -length;
    if (kind == 7) (*event)["ts"] = 2 * some - start;
    if (kind == 8) (*event)["ts"] = fmt::format("{:.3f}", start);
  }
}

void drop_or_repeat(Json& trace, Draw& draw) {
  const Events events = some_events(trace, draw, some_categories(draw));
  if (draw.percent(30)) {
    std::vector<Json> again;
    const double later = static_cast<double>(some_duration_ns(draw)) / 1000;
    for (const Json* event : events) {
      again.push_back(*event);
      if (draw.percent(50) && event->contains("ts")) again.back()["ts"] = time_of(*event) + later;
    }
    for (Json& event : again) trace["traceEvents"].push_back(std::move(event));
    return;
  }
  for (Json* event : events) *event = nullptr;
  Json kept = Json::array();
  for (Json& event : trace["traceEvents"])
    if (!event.is_null()) kept.push_back(std::move(event));
  trace["traceEvents"] = std::move(kept);
}

/// What PyTorch tells of collectives.
void change_collectives(Json& trace, Draw& draw) {
  const std::string key =
      draw.one_of<std::string>({"Collective name", "dtype", "In msg nelems", "Out msg nelems", "Group size",
                                "Process Group Name", "Process Group Ranks", "Process Group Description", "Src Rank",
                                "Dst Rank", "Rank", "Seq", "In split size", "Out split size"});
  const auto value = draw.one_of<Json>({"allreduce",
                                        "_allgather_base",
                                        "send",
                                        "recv",
                                        "all_to_all",
                                        "barrier",
                                        "wait",
                                        "Float",
                                        "BFloat16",
                                        "",
                                        "[]",
                                        "[0]",
                                        "[0, 1]",
                                        "[0, 1, 2, 3]",
                                        "[1, 0]",
                                        "[0, ..., 1023]",
                                        "[5, 5]",
                                        0,
                                        1,
                                        2,
                                        -1,
                                        1000000000000,
                                        nullptr});
  const bool adds = draw.percent(20), alternates = draw.percent(30);
  std::size_t n = 0;
  for (Json* event : some_events(trace, draw, {"kernel", "cpu_op"})) {
    Json& arguments = (*event)["args"];
    if (!arguments.is_object() || (!adds && !arguments.contains("Collective name"))) continue;
    if (alternates && n++ % 2 == 0) continue;
    arguments[key] = value;
  }
}

/// What is told of the whole trace.
void change_head(Json& trace, Draw& draw) {
  const auto number = draw.one_of<Json>({0, 1, 2, 3, -1, 1000, "0", nullptr, 99999999999});
  switch (draw.below(8)) {
    case 0:
    case 1:
      trace["distributedInfo"]["rank"] = number;
      break;
    case 2:
      trace["distributedInfo"]["world_size"] = number;
      break;
    case 3:
      trace.erase("distributedInfo");
      break;
    case 4:
      trace["baseTimeNanoseconds"] = draw.one_of<Json>(
          {0, -1, 1, 1750000000000000000, 1750000000000000000 + some_duration_ns(draw), 9223372036854775807, "x"});
      break;
    case 5:
      trace["deviceProperties"] =
          draw.one_of<Json>({Json::array(), nullptr, Json::parse(R"([{"id": 1, "name": "", "numSms": 0}])"),
                             Json::parse(R"([{"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 1}])")});
      break;
    case 6:
      trace["hostname"] = draw.one_of<Json>({"", "a", "node0", 7});
      break;
    default:
      trace["distributedInfo"]["pg_config"] = Json::parse(R"([{"pg_name": "0", "ranks": [0, 1, 5], "pg_size": 3}])");
  }
}

}  // namespace

std::string edit_trace(Json& trace, Draw& draw) {
  using Edit = std::pair<const char*, void (*)(Json&, Draw&)>;
  static const std::vector<Edit> all = {{"number annotations", number_annotations},
                                        {"number annotations", number_annotations},
                                        {"add annotations", add_annotations},
                                        {"add annotations", add_annotations},
                                        {"name kernels", name_kernels},
                                        {"name calls", name_calls},
                                        {"change categories", change_categories},
                                        {"change places", change_places},
                                        {"change places", change_places},
                                        {"change correlations", change_correlations},
                                        {"change times", change_times},
                                        {"change times", change_times},
                                        {"change times", change_times},
                                        {"drop or repeat", drop_or_repeat},
                                        {"drop or repeat", drop_or_repeat},
                                        {"change collectives", change_collectives},
                                        {"change collectives", change_collectives},
                                        {"change the head", change_head}};
  const Edit& one = draw.one_of(all);
  one.second(trace, draw);
  return one.first;
}

}  // namespace nsys_explain::meaning
