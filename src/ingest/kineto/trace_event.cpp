#include "ingest/kineto/trace_event.hpp"

#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "model/hash.hpp"
#include "model/text.hpp"

namespace nsys_explain::ingest {
namespace {

using simdjson::ondemand::object;
using simdjson::ondemand::value;

std::string_view trimmed(std::string_view token) {
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') token.remove_suffix(1);
  return token;
}

std::int64_t integer(value field) {
  return integer_or_none(trimmed(field.raw_json_token()));
}

std::string text(value field) {
  return field.type() == simdjson::ondemand::json_type::string ? std::string(std::string_view(field.get_string()))
                                                               : std::string();
}

/// Text, or an array written as text.
std::string text_or_array(value field) {
  if (field.type() != simdjson::ondemand::json_type::array) return text(field);
  std::string joined = "[";
  for (auto element : field.get_array())
    joined += (joined.size() > 1 ? ", " : "") + std::string(trimmed(element.value().raw_json_token()));
  return joined + "]";
}

void read_three(value field, std::array<std::int64_t, 3>& three) {
  if (field.type() != simdjson::ondemand::json_type::array) return;
  std::size_t at = 0;
  for (auto element : field.get_array()) {
    if (at < three.size()) three[at] = integer(element.value());
    ++at;
  }
}

bool read_collective(std::string_view key, value field, CollectiveFields& to) {
  if (key == "Collective name") {
    to.name = text(field);
  } else if (key == "dtype") {
    to.data_type = text(field);
  } else if (key == "Process Group Name") {
    to.group_name = text(field);
  } else if (key == "Process Group Ranks") {
    to.group_ranks = text_or_array(field);
  } else if (key == "In msg nelems") {
    to.sent_elements = integer(field);
  } else if (key == "Out msg nelems") {
    to.received_elements = integer(field);
  } else if (key == "Group size") {
    to.group_size = integer(field);
  } else if (key == "Seq" || key == "seq") {
    to.sequence = integer(field);
  } else if (key == "Src Rank") {
    to.source_rank = integer(field);
  } else if (key == "Dst Rank") {
    to.destination_rank = integer(field);
  } else {
    return false;
  }
  return true;
}

void read_argument(std::string_view key, value field, TraceEvent& to) {
  if (key == "device") {
    to.device = integer(field);
  } else if (key == "context") {
    to.context = integer(field);
  } else if (key == "stream") {
    to.stream = integer(field);
  } else if (key == "correlation") {
    to.correlation = integer(field);
  } else if (key == "bytes") {
    to.bytes = integer(field);
  } else if (key == "grid") {
    read_three(field, to.grid);
  } else if (key == "block") {
    read_three(field, to.block);
  } else if (key == "registers per thread") {
    to.registers = integer(field);
  } else if (key == "shared memory") {
    to.shared_bytes = integer(field);
  } else if (key == "graph node id") {
    to.graph_node = integer(field);
  } else if (key == "cuda_sync_kind") {
    to.wait_kind = text(field);
  } else if (key == "wait_on_stream") {
    to.recorded_stream = integer(field);
  } else if (key == "wait_on_cuda_event_record_corr_id") {
    to.recorded_correlation = integer(field);
  } else if (key == "wait_on_cuda_event_id") {
    to.cuda_event = integer(field);
  } else if (key == "name") {
    if (to.is_process_name) to.name = text(field);
  } else {
    read_collective(key, field, to.collective);
  }
}

void read_event(object event, TraceEvent& to) {
  std::string_view phase;
  std::string process_name;
  for (auto field : event) {
    const std::string_view key = field.unescaped_key();
    value member = field.value();
    if (key == "ph") {
      phase = member.get_string();
      to.is_complete = phase == "X";
    } else if (key == "cat") {
      to.category = text(member);
    } else if (key == "name") {
      to.name = text(member);
      to.is_process_name = to.name == "process_name";
    } else if (key == "pid") {
      to.process = integer(member);
    } else if (key == "tid") {
      to.thread = integer(member);
    } else if (key == "ts") {
      to.start_ns = nanoseconds_of(trimmed(member.raw_json_token()));
    } else if (key == "dur") {
      to.duration_ns = nanoseconds_of(trimmed(member.raw_json_token()));
    } else if (key == "args" && member.type() == simdjson::ondemand::json_type::object) {
      for (auto argument : member.get_object()) read_argument(argument.unescaped_key(), argument.value(), to);
    }
  }
  to.is_process_name = to.is_process_name && phase == "M";
}

void read_device(object device, DeviceProperties& to) {
  for (auto field : device) {
    const std::string_view key = field.unescaped_key();
    value member = field.value();
    if (key == "name") to.name = text(member);
    if (key == "id") to.id = integer(member);
    if (key == "totalGlobalMem") to.memory_bytes = integer(member);
    if (key == "computeMajor") to.major = integer(member);
    if (key == "computeMinor") to.minor = integer(member);
    if (key == "numSms") to.multiprocessors = integer(member);
    if (key == "maxThreadsPerMultiprocessor") to.threads_per_multiprocessor = integer(member);
    if (key == "warpSize") to.warp_threads = integer(member);
    if (key == "sharedMemPerMultiprocessor") to.shared_bytes_per_multiprocessor = integer(member);
  }
}

}  // namespace

std::optional<Nanoseconds> nanoseconds_of(std::string_view microseconds) {
  const bool is_negative = microseconds.starts_with('-');
  if (is_negative) microseconds.remove_prefix(1);
  std::string digits;
  std::int64_t exponent = 3;  // of ten, to nanoseconds
  std::size_t at = 0;
  bool is_fraction = false;
  constexpr std::size_t most_digits = 40;
  for (; at < microseconds.size() && digits.size() <= most_digits; ++at) {
    const char c = microseconds[at];
    if (c == '.' && !is_fraction) {
      is_fraction = true;
    } else if (c >= '0' && c <= '9') {
      digits += c;
      exponent -= is_fraction ? 1 : 0;
    } else {
      break;
    }
  }
  if (digits.empty()) return std::nullopt;
  if (at < microseconds.size()) {
    if (microseconds[at] != 'e' && microseconds[at] != 'E') return std::nullopt;
    std::string_view rest = microseconds.substr(at + 1);
    if (rest.starts_with('+')) rest.remove_prefix(1);
    const auto power = integer_of<int>(rest);
    if (!power || *power > 40 || *power < -400) return std::nullopt;
    exponent += *power;
  }
  if (exponent > 0) digits.append(static_cast<std::size_t>(exponent), '0');
  if (exponent < 0)
    digits.resize(digits.size() - std::min<std::size_t>(digits.size(), static_cast<std::size_t>(-exponent)));
  Nanoseconds time = 0;
  if (!digits.empty()) {
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), time);
    if (problem != std::errc()) return std::nullopt;
  }
  return is_negative ? -time : time;
}

std::int64_t integer_or_none(std::string_view token) {
  return integer_of(token).value_or(-1);
}

struct EventParser::Parser {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  std::string padded;

  simdjson::ondemand::document& parse(const std::string& json) {
    padded.assign(json);
    padded.resize(json.size() + simdjson::SIMDJSON_PADDING, ' ');
    document = parser.iterate(padded.data(), json.size(), padded.size());
    return document;
  }
};

EventParser::EventParser() : parser_(std::make_unique<Parser>()) {}
EventParser::~EventParser() = default;

std::optional<TraceEvent> EventParser::event(const std::string& object) try {
  TraceEvent event;
  read_event(parser_->parse(object).get_object(), event);
  return event;
} catch (const simdjson::simdjson_error&) {
  return std::nullopt;
}

std::vector<DeviceProperties> EventParser::devices(const std::string& array) try {
  std::vector<DeviceProperties> devices;
  for (auto device : parser_->parse(array).get_array()) read_device(device.get_object(), devices.emplace_back());
  return devices;
} catch (const simdjson::simdjson_error&) {
  return {};
}

DistributedInfo EventParser::distributed(const std::string& object) try {
  DistributedInfo info;
  for (auto field : parser_->parse(object).get_object()) {
    const std::string_view key = field.unescaped_key();
    value member = field.value();
    if (key == "rank") info.rank = integer(member);
    if (key == "world_size") info.world_size = integer(member);
  }
  return info;
} catch (const simdjson::simdjson_error&) {
  return {};
}

std::string EventParser::text(const std::string& value) try {
  const std::string array = "[" + value + "]";  // a document that is a scalar must be taken otherwise
  for (auto element : parser_->parse(array).get_array()) return ingest::text(element.value());
  return {};
} catch (const simdjson::simdjson_error&) {
  return {};
}

namespace {

/// Names of c10d's operations by how they begin, without underscores ("_allgather_base", "all_gather_into_tensor"); the
/// first that fits. A barrier is an all-reduce of one element.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> operations{
    {{"allreduce", "ncclAllReduce"},
     {"allgather", "ncclAllGather"},
     {"alltoall", "ncclAlltoAll"},
     {"reducescatter", "ncclReduceScatter"},
     {"reduce", "ncclReduce"},
     {"broadcast", "ncclBroadcast"},
     {"barrier", "ncclAllReduce"},
     {"gather", "ncclGather"},
     {"scatter", "ncclScatter"},
     {"send", "ncclSend"},
     {"recv", "ncclRecv"}}};

std::string_view label_of(std::string_view name) {
  std::string bare;
  for (const char c : name)
    if (c != '_') bare += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& [start, label] : operations)
    if (bare.starts_with(start)) return label;
  return {};
}

/// Sizes of c10::ScalarType by its names, and by those that Python has for them; 0: unknown.
std::int64_t bytes_of(std::string_view data_type) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 26> sizes{
      {{"Byte", 1},         {"uint8", 1},         {"Char", 1},   {"int8", 1},    {"Bool", 1},   {"bool", 1},
       {"Short", 2},        {"int16", 2},         {"Int", 4},    {"int32", 4},   {"Long", 8},   {"int64", 8},
       {"Half", 2},         {"float16", 2},       {"Float", 4},  {"float32", 4}, {"Double", 8}, {"float64", 8},
       {"BFloat16", 2},     {"bfloat16", 2},      {"UInt16", 2}, {"UInt32", 4},  {"UInt64", 8}, {"ComplexHalf", 4},
       {"ComplexFloat", 8}, {"ComplexDouble", 16}}};
  if (data_type.starts_with("Float8") || data_type.starts_with("float8")) return 1;
  for (const auto& [name, bytes] : sizes)
    if (name == data_type) return bytes;
  return 0;
}

std::int64_t elements_of(std::string_view label, const CollectiveFields& fields) {
  const bool counts_received = label == "ncclReduceScatter" || label == "ncclRecv" || label == "ncclScatter";
  return counts_received ? fields.received_elements : fields.sent_elements;
}

}  // namespace

std::int64_t place_in_group(const std::string& group_ranks, std::int64_t job_rank) {
  if (job_rank < 0 || group_ranks.find("...") != std::string::npos) return -1;
  std::int64_t place = 0;
  for (std::size_t at = 0; at < group_ranks.size();) {
    std::int64_t rank = 0;
    const auto [end, problem] = std::from_chars(group_ranks.data() + at, group_ranks.data() + group_ranks.size(), rank);
    if (problem != std::errc()) {
      ++at;
      continue;
    }
    if (rank == job_rank) return place;
    ++place;
    at = static_cast<std::size_t>(end - group_ranks.data());
  }
  return -1;
}

std::optional<CollectiveCall> collective_call(const CollectiveFields& fields, std::int64_t job_rank) {
  const std::string_view label = label_of(fields.name);
  if (label.empty()) return std::nullopt;
  std::string payload;
  const auto add = [&](std::string_view name, auto value) {
    payload += fmt::format("{}\"{}\":{}", payload.empty() ? "{" : ",", name, value);
  };
  if (!fields.group_name.empty()) {
    const std::uint64_t hash = fnv1a(fields.group_ranks, fnv1a(fields.group_name, fnv_start));
    add("NCCL communicator ID", hash | (std::uint64_t{1} << 63U));  // small numbers are no communicators of NCCL's
  }
  const std::int64_t elements = elements_of(label, fields), bytes = bytes_of(fields.data_type);
  std::int64_t size = 0;
  if (elements >= 0 && bytes > 0 && !__builtin_mul_overflow(elements, bytes, &size)) add("Message size [bytes]", size);
  const bool is_pair = label == "ncclSend" || label == "ncclRecv";
  if (fields.sequence >= 0 && !is_pair) add("sequence", fields.sequence);
  const std::int64_t place = place_in_group(fields.group_ranks, job_rank);
  if (place >= 0 && fields.group_size > place) {
    add("rank", place);
    add("nranks", fields.group_size);
  }
  if (is_pair) {
    const std::int64_t other = label == "ncclSend" ? fields.destination_rank : fields.source_rank;
    if (const std::int64_t peer = place_in_group(fields.group_ranks, other); peer >= 0) add("peer", peer);
  }
  payload += payload.empty() ? "" : "}";
  return CollectiveCall{std::string(label), std::move(payload)};
}

}  // namespace nsys_explain::ingest
