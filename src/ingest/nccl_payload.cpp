#include "ingest/nccl_payload.hpp"

#include <nlohmann/json.hpp>

#include "ingest/row_filters.hpp"
#include "model/text.hpp"

namespace nsys_explain::ingest {
namespace {

/// Lower-case letters and digits of a label.
std::string bare(std::string_view label) {
  std::string result;
  for (const char c : label) {
    if (c >= 'A' && c <= 'Z') result += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) result += c;
  }
  return result;
}

/// Sizes of ncclDataType_t, by number and by name (nccl.h).
std::int64_t data_type_bytes(std::int64_t number) {
  constexpr std::array<std::int64_t, 12> bytes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return number >= 0 && number < static_cast<std::int64_t>(bytes.size()) ? bytes[static_cast<std::size_t>(number)] : 0;
}

std::int64_t data_type_bytes(std::string_view name) {
  static const std::unordered_map<std::string_view, std::int64_t> sizes = {
      {"int8", 1},     {"char", 1}, {"uint8", 1},   {"int32", 4}, {"int", 4},     {"uint32", 4},     {"int64", 8},
      {"uint64", 8},   {"half", 2}, {"float16", 2}, {"float", 4}, {"float32", 4}, {"double", 8},     {"float64", 8},
      {"bfloat16", 2}, {"bf16", 2}, {"fp16", 2},    {"fp32", 4},  {"fp64", 8},    {"float8e4m3", 1}, {"float8e5m2", 1},
  };
  std::string key = bare(name);
  if (key.starts_with("nccl")) key.erase(0, 4);
  const auto found = sizes.find(key);
  return found == sizes.end() ? 0 : found->second;
}

template <class Visit>
void visit_json(const nlohmann::json& value, int depth, const Visit& visit) {
  constexpr int deepest = 8;
  if (depth > deepest) return;
  if (value.is_array())
    for (const auto& element : value) visit_json(element, depth + 1, visit);
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    if (member.is_structured()) {
      visit_json(member, depth + 1, visit);
    } else {
      visit(key, member);
    }
  }
}

/// Functions by label without the prefix "nccl".
const std::unordered_map<std::string_view, NcclFunction>& functions_by_name() {
  using enum NcclFunction;
  static const std::unordered_map<std::string_view, NcclFunction> functions = {
      {"AllReduce", all_reduce},
      {"AllGather", all_gather},
      {"ReduceScatter", reduce_scatter},
      {"Broadcast", broadcast},
      {"Bcast", broadcast},
      {"Reduce", reduce},
      {"AlltoAll", all_to_all},
      {"AllToAll", all_to_all},
      {"Gather", gather},
      {"Scatter", scatter},
      {"Send", send},
      {"Recv", recv},
      {"GroupStart", group_start},
      {"GroupEnd", group_end},
      {"CommInit", comm_init},
      {"CommInitRank", comm_init},
      {"CommInitAll", comm_init},
      {"CommInitRankConfig", comm_init},
      {"CommInitRankScalable", comm_init},
      {"CommSplit", comm_split},
      {"CommShrink", comm_split},
      {"CommGrow", comm_split},
      {"CommDestroy", comm_destroy},
      {"CommAbort", comm_destroy},
      {"CommFinalize", comm_destroy},
      {"CommRevoke", comm_destroy},
      // Ranges that only the advanced trace has. "API Group" spans the calls of a group and the launch that ends it,
      // so together with GroupLaunch it says what ncclGroupStart and ncclGroupEnd say.
      {"API Group", group_start},
      {"GroupLaunch", group_end},
      {"GroupRuntime", other},
      {"KernelLaunch", other},
      {"CE Sync", other},
      {"CE Batch", other},
  };
  return functions;
}

}  // namespace

PayloadField payload_field(std::string_view label) {
  using enum PayloadField;
  static const std::unordered_map<std::string_view, PayloadField> fields = {
      {"ncclcommunicatorid", communicator},
      {"communicatorid", communicator},
      {"communicatorhash", communicator},
      {"communicator", communicator},
      {"commhash", communicator},
      {"commid", communicator},
      {"comm", communicator},
      {"messagesizebytes", bytes},
      {"messagesize", bytes},
      {"bytes", bytes},
      {"sizebytes", bytes},
      {"sequencenumber", sequence},
      {"sequence", sequence},
      {"seqnumber", sequence},
      {"seqnum", sequence},
      {"seqno", sequence},
      {"seq", sequence},
      {"apiid", call_id},
      {"peerrank", peer_or_root},
      {"peer", peer_or_root},
      {"root", peer_or_root},
      {"rootrank", peer_or_root},
      {"rank", rank},
      {"communicatorrank", rank},
      {"commrank", rank},
      {"noofranks", rank_count},
      {"numberofranks", rank_count},
      {"nranks", rank_count},
      {"numranks", rank_count},
      {"commsize", rank_count},
      {"communicatorsize", rank_count},
      {"noofdevices", rank_count},
      {"cudadevice", device},
      {"cudadev", device},
      {"channel", channel},
      {"channelid", channel},
      {"count", element_count},
      {"elementcount", element_count},
      {"noofelements", element_count},
      {"numberofelements", element_count},
      {"numelements", element_count},
      {"datatype", data_type},
      {"dtype", data_type},
  };
  const auto found = fields.find(bare(label));
  return found == fields.end() ? none : found->second;
}

void PayloadBuilder::set(PayloadField field, std::int64_t value) {
  const auto small = [&](std::int32_t& target) {
    constexpr std::int64_t most_ranks = 1 << 24;
    if (value < -1 || value > most_ranks) {
      impossible_ = true;
    } else {
      target = static_cast<std::int32_t>(value);
    }
  };
  known_ = known_ || field != PayloadField::none;
  switch (field) {
    case PayloadField::none:
      return;
    case PayloadField::communicator:
      payload_.communicator = static_cast<std::uint64_t>(value);
      return;
    case PayloadField::bytes:
      impossible_ = impossible_ || value < 0 || value > most_bytes_at_once;
      payload_.bytes = value;
      return;
    case PayloadField::sequence:
      payload_.sequence = value;
      return;
    case PayloadField::call_id:
      payload_.call_id = value;
      return;
    case PayloadField::peer_or_root:
      return small(payload_.peer_or_root);
    case PayloadField::rank:
      return small(payload_.rank);
    case PayloadField::rank_count:
      return small(payload_.rank_count);
    case PayloadField::device:
      return small(payload_.device);
    case PayloadField::channel:
      payload_.is_one_channel = true;
      return;
    case PayloadField::element_count:
      impossible_ = impossible_ || value < 0 || value > most_bytes_at_once;
      element_count_ = value;
      return;
    case PayloadField::data_type:
      element_bytes_ = data_type_bytes(value);
      return;
  }
}

void PayloadBuilder::set_text(PayloadField field, std::string_view value) {
  if (field == PayloadField::none) return;
  if (value.starts_with('-')) {
    if (const auto negative = integer_of(value)) set(field, *negative);
    return;
  }
  const bool is_hex = value.starts_with("0x") || value.starts_with("0X");
  if (const auto number = integer_of<std::uint64_t>(value.substr(is_hex ? 2 : 0), is_hex ? 16 : 10)) {
    set(field, static_cast<std::int64_t>(*number));
  } else if (field == PayloadField::data_type) {
    known_ = true;
    element_bytes_ = data_type_bytes(value);
  }
}

std::optional<NcclPayload> PayloadBuilder::finish() const {
  if (!known_ || impossible_) return std::nullopt;
  NcclPayload result = payload_;
  if (result.bytes < 0 && element_count_ >= 0 && element_bytes_ > 0) result.bytes = element_count_ * element_bytes_;
  // A call on a null communicator logs zeros throughout.
  if (result.rank_count > 0 && result.rank >= result.rank_count) return std::nullopt;
  return result;
}

std::optional<NcclPayload> decode_json_payload(std::string_view json) {
  const auto document = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return std::nullopt;
  PayloadBuilder builder;
  visit_json(document, 0, [&](const std::string& key, const nlohmann::json& value) {
    const PayloadField field = payload_field(key);
    if (value.is_number_unsigned()) {
      builder.set(field, static_cast<std::int64_t>(value.get<std::uint64_t>()));
    } else if (value.is_number_integer()) {
      builder.set(field, value.get<std::int64_t>());
    } else if (value.is_string()) {
      builder.set_text(field, value.get_ref<const std::string&>());
    }
  });
  return builder.finish();
}

std::optional<NcclLabel> parse_nccl_label(std::string_view text) {
  const auto& functions = functions_by_name();
  if (text.starts_with("nccl") && text.size() > 4 && text[4] >= 'A' && text[4] <= 'Z') {
    const auto found = functions.find(text.substr(4));
    return NcclLabel{found == functions.end() ? NcclFunction::other : found->second, true};
  }
  const auto found = functions.find(text);
  if (found == functions.end()) return std::nullopt;
  return NcclLabel{found->second, false};
}

}  // namespace nsys_explain::ingest
