#include "ingest/side_files.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <simdjson.h>

#include "ingest/masked_secrets.hpp"
#include "model/schema/side.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

using simdjson::ondemand::value;

/// Text of a stack, by its number; 0 is empty.
class StackTexts {
 public:
  std::size_t number(std::string text) {
    const auto [found, is_new] = numbers_.try_emplace(std::move(text), texts_.size());
    if (is_new) texts_.push_back(found->first);
    return found->second;
  }
  const std::string& text(std::size_t number) const { return texts_[number]; }

 private:
  std::map<std::string, std::size_t> numbers_{{"", 0}};
  std::vector<std::string> texts_{""};
};

struct Block {
  std::int64_t bytes = 0;
  std::size_t stack = 0;
};
using Blocks = std::map<std::int64_t, Block>;  ///< by address

/// An event of the allocator that changes what is in use (`in_use`) or held from CUDA (`reserved`): 1 more, -1 less.
struct AllocatorEvent {
  int in_use = 0, reserved = 0;
  bool is_failure = false;
  std::int64_t address = -1, time_us = -1;
  Block block;
};

struct AllocatorDevice {
  std::vector<AllocatorEvent> events;
  Blocks in_use;  ///< when the snapshot was taken
  std::int64_t reserved_bytes = 0;
};

using AllocatorDevices = std::map<std::int64_t, AllocatorDevice>;

std::int64_t integer_in(value field) {
  std::int64_t number = 0;
  return field.get_int64().get(number) == simdjson::SUCCESS ? number : -1;
}

/// 0 where it is none, or more than a GPU could have: so sums of all that fits into memory fit, too.
std::int64_t bytes_in(value field) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 40;
  const std::int64_t bytes = integer_in(field);
  return bytes < 0 || bytes > most_bytes ? 0 : bytes;
}

std::string text_in(value field) {
  std::string_view text;
  return field.get_string().get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

/// File, line and function of each frame, innermost first: of Python where there is any of it, else of all that was
/// recorded.
std::string stack_text(value frames) {
  constexpr std::size_t most_frames = 8;
  std::vector<std::string> python, others;
  if (frames.type() != simdjson::ondemand::json_type::array) return {};
  for (auto frame : frames.get_array()) {
    std::string file, name;
    std::int64_t line = 0;
    for (auto field : frame.get_object()) {
      const std::string_view key = field.unescaped_key();
      if (key == "filename") file = text_in(field.value());
      if (key == "name") name = text_in(field.value());
      if (key == "line") line = integer_in(field.value());
    }
    const bool is_python = file.ends_with(".py");
    file.erase(0, file.rfind('/') + 1);
    (is_python ? python : others).push_back(is_python ? fmt::format("{}:{} {}", file, line, name) : name);
  }
  const std::vector<std::string>& told = python.empty() ? others : python;
  std::string text;
  for (std::size_t i = 0; i < std::min(told.size(), most_frames); ++i) text += (i > 0 ? " < " : "") + told[i];
  return without_secrets(valid_utf8(text));
}

void read_block(simdjson::ondemand::object block, AllocatorDevice& device, StackTexts& stacks) {
  std::int64_t address = -1, bytes = 0, requested = 0;
  std::string state, stack;
  for (auto field : block) {
    const std::string_view key = field.unescaped_key();
    if (key == "address") address = integer_in(field.value());
    if (key == "size") bytes = bytes_in(field.value());
    if (key == "requested_size") requested = bytes_in(field.value());
    if (key == "state") state = text_in(field.value());
    if (key == "frames") stack = stack_text(field.value());
  }
  if (address < 0 || !state.starts_with("active")) return;
  device.in_use[address] = {requested > 0 ? requested : bytes, stacks.number(std::move(stack))};
}

void read_segment(simdjson::ondemand::object segment, AllocatorDevices& devices, StackTexts& stacks) {
  AllocatorDevice read;
  std::int64_t device = 0;
  for (auto field : segment) {
    const std::string_view key = field.unescaped_key();
    if (key == "device") device = integer_in(field.value());
    if (key == "total_size") read.reserved_bytes = bytes_in(field.value());
    if (key == "blocks")
      for (auto block : field.value().get_array()) read_block(block.get_object(), read, stacks);
  }
  AllocatorDevice& all = devices[device];
  all.in_use.merge(read.in_use);
  all.reserved_bytes += read.reserved_bytes;
}

AllocatorEvent read_allocator_event(simdjson::ondemand::object entry, StackTexts& stacks) {
  AllocatorEvent event;
  std::string stack;
  for (auto field : entry) {
    const std::string_view key = field.unescaped_key();
    if (key == "action") {
      const std::string action = text_in(field.value());
      event.in_use = action == "alloc" ? 1 : action == "free_completed" ? -1 : 0;
      event.reserved = action == "segment_alloc" || action == "segment_map"    ? 1
                       : action == "segment_free" || action == "segment_unmap" ? -1
                                                                               : 0;
      event.is_failure = action == "oom";
    }
    if (key == "addr") event.address = integer_in(field.value());
    if (key == "size") event.block.bytes = bytes_in(field.value());
    if (key == "time_us") event.time_us = integer_in(field.value());
    if (key == "frames") stack = stack_text(field.value());
  }
  if (event.in_use > 0) event.block.stack = stacks.number(std::move(stack));
  return event;
}

/// The blocks in use before the first event: those freed, or left, of which no event tells the allocation.
Blocks blocks_before(const AllocatorDevice& device) {
  Blocks before, open;
  for (const AllocatorEvent& event : device.events) {
    if (event.in_use > 0) open[event.address] = event.block;
    if (event.in_use < 0 && open.erase(event.address) == 0)
      before.try_emplace(event.address, Block{event.block.bytes, 0});
  }
  for (const auto& [address, block] : device.in_use)
    if (!open.contains(address)) before.try_emplace(address, block);
  return before;
}

/// What is in use, event by event.
struct Level {
  Blocks blocks;
  std::int64_t bytes = 0, reserved_bytes = 0;

  void take(const AllocatorEvent& event) {
    reserved_bytes += event.reserved * event.block.bytes;
    if (event.in_use == 0) return;
    if (const auto known = blocks.find(event.address); known != blocks.end()) {
      bytes -= known->second.bytes;
      blocks.erase(known);
    }
    if (event.in_use < 0) return;
    blocks.emplace(event.address, event.block);
    bytes += event.block.bytes;
  }
};

Level level_before(const AllocatorDevice& device) {
  Level level{blocks_before(device), 0, device.reserved_bytes};
  for (const auto& [address, block] : level.blocks) level.bytes += block.bytes;
  for (const AllocatorEvent& event : device.events) level.reserved_bytes -= event.reserved * event.block.bytes;
  return level;
}

std::int64_t utc_of(const AllocatorEvent& event) {
  return event.time_us > 0 && event.time_us < 4'000'000'000'000'000 ? event.time_us * 1'000 : -1;
}

/// Writes the parts, and gives the event that first reached the peak; -1: none did.
std::int64_t write_parts(std::int64_t number, const AllocatorDevice& device, Table& parts, Table& summary) {
  constexpr std::size_t most_parts = 1'000;
  const std::size_t part_events = device.events.size() / most_parts + 1;
  Level level = level_before(device);
  std::int64_t peak_event = -1, peak_bytes = level.bytes, part_peak = level.bytes, failures = 0;
  for (std::size_t i = 0; i < device.events.size(); ++i) {
    level.take(device.events[i]);
    failures += device.events[i].is_failure ? 1 : 0;
    part_peak = std::max(part_peak, level.bytes);
    if (level.bytes > peak_bytes) {
      peak_bytes = level.bytes;
      peak_event = static_cast<std::int64_t>(i);
    }
    if ((i + 1) % part_events != 0 && i + 1 != device.events.size()) continue;
    const std::size_t first = i / part_events * part_events;
    RowWriter(parts) << number << static_cast<std::int64_t>(first) << utc_of(device.events[first]) << part_peak
                     << level.bytes << level.reserved_bytes;
    part_peak = level.bytes;
  }
  RowWriter(summary) << number << static_cast<std::int64_t>(device.events.size()) << peak_bytes << peak_event
                     << (peak_event < 0 ? -1 : utc_of(device.events[static_cast<std::size_t>(peak_event)]))
                     << level.bytes << level.reserved_bytes << failures;
  return peak_event;
}

void write_holders(std::int64_t number, const AllocatorDevice& device, std::int64_t peak_event,
                   const StackTexts& stacks, Table& holders) {
  Level level = level_before(device);
  for (std::int64_t i = 0; i <= peak_event; ++i) level.take(device.events[static_cast<std::size_t>(i)]);
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> sums;  // bytes and blocks
  for (const auto& [address, block] : level.blocks) {
    auto& [bytes, blocks] = sums[stacks.text(block.stack)];
    bytes += block.bytes;
    ++blocks;
  }
  std::vector<std::pair<std::string, std::pair<std::int64_t, std::int64_t>>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  RowWriter row(holders);
  for (const auto& [stack, sum] : rows)
    row << number << stack << sum.second << sum.first
        << (level.bytes > 0 ? 100 * static_cast<double>(sum.first) / static_cast<double>(level.bytes) : 0.0);
}

AllocatorDevices read_snapshot(std::string_view json, StackTexts& stacks) {
  AllocatorDevices devices;
  bool has_segments = false;
  simdjson::ondemand::parser parser;
  const simdjson::padded_string padded(json);
  auto document = parser.iterate(padded);
  for (auto field : document.get_object()) {
    const std::string_view key = field.unescaped_key();
    if (key == "segments") {
      has_segments = true;
      for (auto segment : field.value().get_array()) read_segment(segment.get_object(), devices, stacks);
    }
    if (key != "device_traces") continue;
    std::int64_t device = 0;
    for (auto trace : field.value().get_array()) {
      for (auto entry : trace.get_array())
        devices[device].events.push_back(read_allocator_event(entry.get_object(), stacks));
      ++device;
    }
  }
  return has_segments ? devices : AllocatorDevices();
}

}  // namespace

std::vector<Table> allocator_tables() {
  return {make_table(schema::allocator_summary), make_table(schema::allocator_memory),
          make_table(schema::allocator_peak)};
}

std::vector<Table> allocator_tables(std::string_view json) {
  if (json.starts_with('\x80')) {
    throw std::runtime_error(
        R"text(it is a pickle, which runs whatever its writer put into it, so it is not read and nothing is known of memory; turn yours into JSON: python3 -c "import json, pickle, sys; json.dump(pickle.load(open(sys.argv[1], 'rb')), open(sys.argv[2], 'w'), default=str)" SNAPSHOT.pickle SNAPSHOT.json)text");
  }
  StackTexts stacks;
  AllocatorDevices devices;
  try {
    devices = read_snapshot(json, stacks);
  } catch (const simdjson::simdjson_error&) {
    devices.clear();
  }
  if (devices.empty()) {
    throw std::runtime_error(
        "it is no JSON with the segments of PyTorch's allocator, so nothing is known of memory; write it with torch.cuda.memory._record_memory_history() at the start, and json.dump(torch.cuda.memory._snapshot(), open(FILE, 'w'), default=str) at the end");
  }
  std::vector<Table> tables = allocator_tables();
  for (const auto& [number, device] : devices) {
    const std::int64_t peak_event = write_parts(number, device, tables[1], tables[0]);
    write_holders(number, device, peak_event, stacks, tables[2]);
  }
  return tables;
}

}  // namespace nsys_explain::ingest
