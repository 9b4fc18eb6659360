#include "ingest/event_readers.hpp"

#include <algorithm>

namespace nsys_explain::ingest {
namespace {

/// What a frame tells, best first.
enum class Telling : std::uint8_t { python, function, library, profiler };

struct Frame {
  Telling telling = Telling::profiler;
  std::int64_t depth = std::numeric_limits<std::int64_t>::max();  ///< 0: where the thread was
  std::int64_t symbol = no_time, module = no_time;                ///< ids of strings

  friend bool operator<(const Frame& a, const Frame& b) {
    return std::tie(a.telling, a.depth) < std::tie(b.telling, b.depth);
  }
};

struct Sample {
  std::int64_t id = 0;
  ProcessTrace* process = nullptr;
  CpuSample sample;
  Frame frame;
};

Telling telling_of_module(std::string_view module) {
  if (module.ends_with(".py")) return Telling::python;
  if (module.empty() || module.front() == '[') return Telling::library;  // "[Unknown]", "[kernel.kallsyms]"
  return is_profilers_library(module) ? Telling::profiler : Telling::function;
}

std::vector<Sample> read_samples(const Reading& reading) {
  constexpr const char* table = "COMPOSITE_EVENTS";
  TableScan scan(reading.database, table);
  const auto id = scan.integer("id", Presence::required);
  const auto start = scan.integer("start", Presence::required);
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto cpu = scan.integer("cpu");
  std::vector<Sample> samples;
  // Other processes of the system may be sampled, too: they count where nothing else tells which are the program's.
  const bool is_all_there_is = reading.builder.processes().empty();
  for_each_event(
      reading, table, scan, global_tid, start, start,
      [&](ProcessTrace& process, const Interval& time, std::size_t row) {
        const CpuSample sample{time.start_ns, thread_id_of(global_tid[row]), 0, 0,
                               value_or<std::int16_t>(cpu[row], -1)};
        samples.push_back({id[row], &process, sample, {}});
      },
      is_all_there_is ? program_process_in : process_in);
  std::stable_sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.id < b.id; });
  return samples;
}

void read_frames(const Reading& reading, std::vector<Sample>& samples) {
  TableScan scan(reading.database, "SAMPLING_CALLCHAINS");
  const auto id = scan.integer("id", Presence::required);
  const auto symbol = scan.integer("symbol", Presence::required);
  const auto module = scan.integer("module", Presence::required);
  const auto unresolved = scan.integer("unresolved");
  const auto depth = scan.integer("stackDepth", Presence::required);
  std::unordered_map<std::int64_t, Telling> of_module;
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto sample = std::lower_bound(samples.begin(), samples.end(), id[row],
                                           [](const Sample& one, std::int64_t wanted) { return one.id < wanted; });
      if (sample == samples.end() || sample->id != id[row]) continue;
      const auto [known, is_new] = of_module.try_emplace(module[row]);
      if (is_new) known->second = telling_of_module(reading.strings.value(module[row]));
      const bool is_named = unresolved[row] == no_time || unresolved[row] == 0;
      const bool is_address = reading.strings.value(symbol[row]).starts_with("0x");
      Frame frame{known->second, value_or<std::int64_t>(depth[row], 0), symbol[row], module[row]};
      if (frame.telling == Telling::function && (!is_named || is_address)) frame.telling = Telling::library;
      sample->frame = std::min(sample->frame, frame);
    }
  });
}

}  // namespace

std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

bool is_profilers_library(std::string_view path) {
  const std::string_view file = file_name(path);
  return file.starts_with("libToolsInjection") || file.starts_with("libcupti");
}

void read_cpu_samples(const Reading& reading) {
  std::vector<Sample> samples = read_samples(reading);
  if (samples.empty()) return;
  read_frames(reading, samples);
  for (Sample& one : samples) {
    if (one.frame.telling <= Telling::function) one.sample.function = reading.strings.keep_id(one.frame.symbol);
    one.sample.module = reading.strings.keep(file_name(reading.strings.value(one.frame.module)));
    one.process->cpu_samples.push_back(one.sample);
  }
}

}  // namespace nsys_explain::ingest
