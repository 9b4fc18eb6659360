#include "ingest/kineto/collective_call.hpp"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "model/hash.hpp"

namespace nsys_explain::ingest {
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
  for (const char c : name) {
    if (c != '_') bare += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const auto& [start, label] : operations) {
    if (bare.starts_with(start)) return label;
  }
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
  for (const auto& [name, bytes] : sizes) {
    if (name == data_type) return bytes;
  }
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
