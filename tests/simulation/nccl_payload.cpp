#include "simulation/nccl_payload.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace nsys_explain::synth {
namespace {

// NVTX payload entry types.
constexpr std::int64_t type_int = 5, type_uint64 = 18, type_size = 22;

constexpr int with_communicator = 225;  // the hash comes first from this version on

/// The reduction operation's type is an enum with a schema id of its own, which moved as functions were added.
std::int64_t reduction_type(int version) {
  if (version <= 222) return static_schema_ids + 11;
  if (version <= 225) return static_schema_ids + 14;
  if (version == 226) return static_schema_ids + 15;
  if (version == 227) return static_schema_ids + 16;
  if (version == 228) return static_schema_ids + 20;
  return static_schema_ids + 24;
}

/// Appends members at their natural alignment, as a C compiler lays the struct out.
class StructLayout {
 public:
  explicit StructLayout(std::int64_t sid) { payload_.schema_id = static_schema_ids + sid; }

  StructLayout& communicator(std::uint64_t hash) { return add("NCCL communicator ID", type_uint64, 8, hash); }
  StructLayout& bytes(const char* label, std::int64_t value) {
    return add(label, type_size, 8, static_cast<std::uint64_t>(value));
  }
  StructLayout& integer(const char* label, std::int32_t value, std::int64_t type = type_int) {
    return add(label, type, 4, static_cast<std::uint32_t>(value));
  }

  NcclPayload finish() {
    payload_.size = (payload_.size + alignment_ - 1) / alignment_ * alignment_;
    return std::move(payload_);
  }

 private:
  StructLayout& add(const char* label, std::int64_t type, std::int32_t size, std::uint64_t value) {
    const std::int32_t offset = (payload_.size + size - 1) / size * size;
    alignment_ = std::max(alignment_, size);
    payload_.fields.push_back({label, type, offset, size, value});
    payload_.size = offset + size;
    return *this;
  }

  NcclPayload payload_;
  std::int32_t alignment_ = 1;
};

/// Schema id (SID) of a function.
std::int64_t schema_of(NcclFunction function, int version) {
  switch (function) {
    case NcclFunction::comm_init:
      return version >= 223 ? 11 : 0;
    case NcclFunction::comm_destroy:
      return 2;
    case NcclFunction::all_gather:
      return 4;
    case NcclFunction::all_reduce:
      return 5;
    case NcclFunction::broadcast:
      return 6;
    case NcclFunction::reduce_scatter:
      return 7;
    case NcclFunction::reduce:
      return 8;
    case NcclFunction::send:
      return 9;
    case NcclFunction::recv:
      return 10;
    case NcclFunction::all_to_all:
      return 16;
    default:
      return -1;
  }
}

}  // namespace

NcclPayload nccl_payload(const NcclCallRecord& call, int version) {
  const std::int64_t sid = schema_of(call.function, version);
  if (sid < 0) return {};
  const bool hashed = version >= with_communicator;
  StructLayout layout(sid);
  if (hashed) layout.communicator(call.communicator);
  if (call.function == NcclFunction::comm_init || call.function == NcclFunction::comm_destroy) {
    // The order of rank and count changed with the arrival of the hash.
    if (hashed)
      layout.integer("No. of ranks", call.rank_count).integer("Rank", call.rank);
    else
      layout.integer("Rank", call.rank).integer("No. of ranks", call.rank_count);
    return layout.integer("CUDA device", call.device).finish();
  }
  const bool short_label = !hashed && (call.function == NcclFunction::broadcast ||
                                       call.function == NcclFunction::send || call.function == NcclFunction::recv);
  layout.bytes(short_label ? "Bytes" : "Message size [bytes]", call.bytes);
  if (call.function == NcclFunction::broadcast || call.function == NcclFunction::reduce)
    layout.integer("Root", call.peer_or_root);
  if (call.function == NcclFunction::send || call.function == NcclFunction::recv)
    layout.integer("Peer rank", call.peer_or_root);
  if (call.function == NcclFunction::all_reduce || call.function == NcclFunction::reduce_scatter ||
      call.function == NcclFunction::reduce)
    layout.integer("Reduction operation", 0, reduction_type(version));
  return layout.finish();
}

std::string nccl_function_name(NcclFunction function, int version) {
  switch (function) {
    case NcclFunction::all_reduce:
      return "ncclAllReduce";
    case NcclFunction::all_gather:
      return "ncclAllGather";
    case NcclFunction::reduce_scatter:
      return "ncclReduceScatter";
    case NcclFunction::broadcast:
      return "ncclBroadcast";
    case NcclFunction::reduce:
      return "ncclReduce";
    case NcclFunction::all_to_all:
      return "ncclAlltoAll";
    case NcclFunction::send:
      return "ncclSend";
    case NcclFunction::recv:
      return "ncclRecv";
    case NcclFunction::group_start:
      return "ncclGroupStart";
    case NcclFunction::group_end:
      return "ncclGroupEnd";
    case NcclFunction::comm_init:
      return version >= 223 ? "ncclCommInitRankConfig" : "ncclCommInitRank";
    case NcclFunction::comm_destroy:
      return "ncclCommDestroy";
    default:
      return "ncclCommCount";
  }
}

std::string traced_function_name(NcclFunction function) {
  if (function == NcclFunction::group_start) return "API Group";
  if (function == NcclFunction::group_end) return "GroupLaunch";
  if (function == NcclFunction::comm_init) return "CommInit";
  return nccl_function_name(function, 0).substr(4);
}

std::string traced_payload_json(const NcclCallRecord& call, const TracedCall& traced) {
  if (call.communicator == 0) return {};
  std::string text = fmt::format(R"({{"apiId":{},"commHash":{},"rank":{},"nRanks":{})", traced.api_id,
                                 call.communicator, traced.rank, traced.rank_count);
  const bool in_pairs = call.function == NcclFunction::send || call.function == NcclFunction::recv;
  if (call.bytes >= 0) text += fmt::format(R"(,"count":{},"datatype":"ncclInt8")", call.bytes);
  if (call.bytes >= 0 && !in_pairs) text += fmt::format(R"(,"seqNumber":{})", traced.sequence);
  if (call.peer_or_root >= 0) text += fmt::format(R"(,"{}":{})", in_pairs ? "peer" : "root", call.peer_or_root);
  return text + "}";
}

namespace {

void append_little_endian(std::string& bytes, std::uint64_t value, std::int32_t size) {
  for (std::int32_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
}

}  // namespace

std::string payload_blob(const NcclPayload& payload, std::int64_t domain_id) {
  constexpr std::uint64_t header_size = 32;
  std::string bytes;
  append_little_endian(bytes, static_cast<std::uint64_t>(domain_id), 8);
  append_little_endian(bytes, static_cast<std::uint64_t>(payload.schema_id), 8);
  append_little_endian(bytes, static_cast<std::uint64_t>(payload.size), 8);
  append_little_endian(bytes, header_size + static_cast<std::uint64_t>(payload.size), 8);
  for (const PayloadField& field : payload.fields) {
    bytes.resize(header_size + static_cast<std::size_t>(field.offset), '\0');  // padding
    append_little_endian(bytes, field.value, field.size);
  }
  bytes.resize(header_size + static_cast<std::size_t>(payload.size), '\0');
  return bytes;
}

std::string hex_text(const std::string& bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text.push_back(digits[byte >> 4]);
    text.push_back(digits[byte & 0xF]);
  }
  return text;
}

std::string payload_json(const NcclPayload& payload) {
  std::string text = "{";
  for (const PayloadField& field : payload.fields) {
    text += fmt::format("{}\"{}\":", text.size() > 1 ? "," : "", field.label);
    text +=
        field.type == type_int ? std::to_string(static_cast<std::int32_t>(field.value)) : std::to_string(field.value);
  }
  return text + "}";
}

}  // namespace nsys_explain::synth
