#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "simulation/export_context.hpp"
#include "simulation/nccl_payload.hpp"

namespace nsys_explain::synth {
namespace {

constexpr std::int64_t nccl_domain = 1;
constexpr std::int64_t category_definition = 33, push_pop_range = 59, domain_create = 75;  // ENUM_NSYS_EVENT_TYPE

struct NvtxColumns {
  explicit NvtxColumns(const Table& table)
      : start(table.column("start")),
        end(table.column("end")),
        type(table.column("eventType")),
        category(table.column("category")),
        text(table.column("text")),
        thread(table.column("globalTid")),
        text_id(table.column("textId")),
        domain(table.column("domainId")),
        json(table.column("jsonText")),
        binary(table.column("binaryData")),
        event_id(table.column("eventId")) {}
  int start, end, type, category, text, thread, text_id, domain, json, binary, event_id;
};

/// Writes the rows of NVTX_EVENTS and, per payload style, where the payloads go.
class NvtxWriter {
 public:
  explicit NvtxWriter(ExportContext& context)
      : context_(context), style_(context.plan.export_style), table_(context.table("NVTX_EVENTS")), columns_(table_) {}

  void write() {
    for (const RankIdentity& identity : context_.rank_passes()) {
      const RankEvents& events = context_.events(identity);
      if (identity.global_pid != process_) begin_process(identity, events);
      const std::vector<TracedCall> traced = traced_calls(events);
      for (const std::uint32_t i : context_.row_order(events.ranges.size(), 4)) {
        const HostRange& range = events.ranges[i];
        if (!identity.window.covers(range.start_ns, range.end_ns)) continue;
        if (style_.advanced_nccl_trace && range.nccl_call != no_index) {
          traced_rows(identity, events, range, traced[range.nccl_call]);
        } else {
          range_row(identity, events, range);
        }
      }
      if (style_.operator_ranges) operator_rows(identity, events);
    }
    schema_rows();
    for (const auto& [original, name] : translations_) {
      translation_table_.set_text(1, original);
      translation_table_.set_text(2, name);
      translation_table_.insert();
    }
  }

 private:
  void begin_row(std::int64_t type, std::int64_t thread, std::int64_t domain) {
    table_.set(columns_.event_id, 1 + table_.rows());
    table_.set(columns_.type, type);
    table_.set(columns_.thread, thread);
    table_.set(columns_.domain, domain);
    table_.set_null(columns_.category);
    table_.set_null(columns_.text);
    table_.set_null(columns_.text_id);
    table_.set_null(columns_.json);
    table_.set_null(columns_.binary);
  }

  /// Each process names NCCL's domain and registers the schemas that it uses.
  void begin_process(const RankIdentity& identity, const RankEvents& events) {
    schema_rows();
    process_ = identity.global_pid;
    categories_.clear();
    if (!style_.nccl_domain_row || events.nccl_calls.empty()) return;
    definition_row(identity, domain_create, 0, "NCCL");
  }

  void definition_row(const RankIdentity& identity, std::int64_t type, std::int64_t category, const std::string& text) {
    const RankEvents& events = context_.events(identity);
    begin_row(type, identity.threads[0], nccl_domain);
    table_.set(columns_.start, context_.host_time(identity.shift_ns + events.ranges.front().start_ns) - 1'000'000);
    table_.set_null(columns_.end);
    if (category != 0) table_.set(columns_.category, category);
    table_.set_text(columns_.text, text);
    table_.insert();
  }

  /// The process's number of a communicator: by first use, from another one on in every process.
  std::int64_t category_of(const RankIdentity& identity, std::uint64_t hash) {
    const auto next = 1 + 3 * (identity.rank % 5) + static_cast<std::int64_t>(categories_.size());
    const auto [category, is_new] = categories_.try_emplace(hash, next);
    if (is_new && style_.communicator_names != CommunicatorNames::none)
      definition_row(identity, category_definition, category->second, given_name(hash));
    return category->second;
  }

  std::string given_name(std::uint64_t hash) const {
    const auto& all = context_.job.communicators;
    const auto found = std::find_if(all.begin(), all.end(), [&](const TrueCommunicator& c) { return c.hash == hash; });
    const bool is_whole = style_.communicator_names == CommunicatorNames::group;
    return is_whole ? found->name : found->name.substr(0, found->name.find(' '));
  }

  void range_row(const RankIdentity& identity, const RankEvents& events, const HostRange& range) {
    const bool is_nccl = range.nccl_call != no_index;
    begin_row(push_pop_range, identity.threads[range.thread], is_nccl ? nccl_domain : 0);
    table_.set(columns_.start, context_.host_time(identity.shift_ns + range.start_ns));
    table_.set(columns_.end, context_.host_time(identity.shift_ns + range.end_ns));
    if (is_nccl) {
      const NcclCallRecord& call = events.nccl_calls[range.nccl_call];
      // NCCL registers its strings.
      table_.set(columns_.text_id, context_.strings.id(nccl_function_name(call.function, context_.nccl_version)));
      payload(identity, nccl_payload(call, context_.nccl_version));
    } else {
      std::string label = range_labels[range.label];
      if (range.number >= 0) label += fmt::format(" {}", range.number);
      table_.set_text(columns_.text, label);
    }
    table_.insert();
  }

  /// NCCL counts the calls of each function in each communicator.
  static std::vector<TracedCall> traced_calls(const RankEvents& events) {
    std::map<std::uint64_t, TracedCall> memberships;
    std::map<std::pair<std::uint64_t, NcclFunction>, std::int64_t> next;
    std::vector<TracedCall> traced;
    for (const NcclCallRecord& call : events.nccl_calls) {
      TracedCall& membership = memberships[call.communicator];
      if (call.rank >= 0) membership = {0, 0, call.rank, call.rank_count};
      traced.push_back(membership);
      traced.back().api_id = static_cast<std::int64_t>(traced.size());
      traced.back().sequence = next[{call.communicator, call.function}]++;
    }
    return traced;
  }

  void traced_row(const RankIdentity& identity, const std::string& name, std::int64_t category, const std::string& json,
                  const HostRange& range, Nanoseconds start_ns, Nanoseconds end_ns) {
    begin_row(push_pop_range, identity.threads[range.thread], nccl_domain);
    table_.set(columns_.start, context_.host_time(identity.shift_ns + start_ns));
    table_.set(columns_.end, context_.host_time(identity.shift_ns + end_ns));
    table_.set(columns_.text_id, context_.strings.id(name));
    if (category != 0) table_.set(columns_.category, category);
    if (!json.empty()) table_.set_text(columns_.json, json);
    table_.insert();
  }

  /// A call by itself is a group of one: the call is recorded first, GroupLaunch launches and runs it.
  void traced_rows(const RankIdentity& identity, const RankEvents& events, const HostRange& range,
                   const TracedCall& traced) {
    const NcclCallRecord& call = events.nccl_calls[range.nccl_call];
    const std::string name = traced_function_name(call.function);
    const bool has_payload = style_.payload != PayloadStyle::none;
    const std::string json = has_payload ? traced_payload_json(call, traced) : std::string();
    const std::int64_t category = call.communicator != 0 ? category_of(identity, call.communicator) : 0;
    const bool is_single =
        call.bytes >= 0 && call.function != NcclFunction::send && call.function != NcclFunction::recv;
    if (!is_single) return traced_row(identity, name, category, json, range, range.start_ns, range.end_ns);
    const Nanoseconds start_ns = range.start_ns;
    traced_row(identity, traced_function_name(NcclFunction::group_start), 0, {}, range, start_ns, range.end_ns);
    traced_row(identity, name, category, json, range, start_ns + 10, start_ns + 20);
    traced_row(identity, traced_function_name(NcclFunction::group_end), 0, {}, range, start_ns + 30, range.end_ns);
    traced_row(identity, name, category, json, range, start_ns + 40, range.end_ns - 10);
  }

  /// As PyTorch's emit_nvtx names them: around every other launch of a kernel, almost no two texts alike.
  void operator_rows(const RankIdentity& identity, const RankEvents& events) {
    static constexpr std::array<const char*, 6> operators{"aten::view",  "aten::mul",        "aten::addmm",
                                                          "aten::copy_", "aten::layer_norm", "aten::_softmax"};
    for (std::uint32_t i = 0; i < events.calls.size(); ++i) {
      const HostCall& call = events.calls[i];
      const bool launches = call.function == ApiFunction::launch_kernel;
      if (!launches || i % 2 != 0 || !identity.window.covers(call.start_ns, call.end_ns)) continue;
      begin_row(push_pop_range, identity.threads[call.thread], 0);
      table_.set(columns_.start, context_.host_time(identity.shift_ns + call.start_ns));
      table_.set(columns_.end, context_.host_time(identity.shift_ns + call.end_ns));
      table_.set_text(columns_.text,
                      fmt::format("{}, op_id = {}", operators[i / 2 % operators.size()], identity.correlation(i)));
      table_.insert();
    }
  }

  void payload(const RankIdentity& identity, const NcclPayload& payload) {
    if (payload.fields.empty() || !context_.has_table("NVTX_PAYLOAD_SCHEMAS")) return;
    schemas_.emplace(payload.schema_id, payload);
    switch (style_.payload) {
      case PayloadStyle::none:
        break;
      case PayloadStyle::blob:
        table_.set_blob(columns_.binary, payload_blob(payload, nccl_domain));
        break;
      case PayloadStyle::hex_text:
        table_.set_text(columns_.binary, hex_text(payload_blob(payload, nccl_domain)));
        break;
      case PayloadStyle::json:
        table_.set_text(columns_.json, payload_json(payload));
        break;
      case PayloadStyle::dynamic_tables:
        dynamic_row(identity, payload);
        break;
    }
  }

  static std::string sanitized(const std::string& label) {
    std::string name;
    for (const char c : label) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    return name;
  }

  /// One table per process, domain and schema, with one column per field, joined on NVTX_EVENTS.eventId.
  void dynamic_row(const RankIdentity& identity, const NcclPayload& payload) {
    const std::string name =
        fmt::format("DYNAMIC_NVTXPAYLOAD_DATATYPE_{}_{}_{}", identity.global_pid, nccl_domain, payload.schema_id);
    std::unique_ptr<Table>& table = dynamic_[name];
    if (table == nullptr) {
      std::vector<Column> columns{{"eventId", "INTEGER", true, false}};
      for (const PayloadField& field : payload.fields) {
        columns.push_back({sanitized(field.label), "INTEGER", false, false});
        translations_.emplace(field.label, columns.back().name);
      }
      table = std::make_unique<Table>(context_.database, name, std::move(columns));
    }
    table->set(1, 1 + table_.rows());
    for (std::size_t i = 0; i < payload.fields.size(); ++i)
      table->set(static_cast<int>(i) + 2, static_cast<std::int64_t>(payload.fields[i].value));
    table->insert();
    links_.set(links_.column("eventId"), 1 + table_.rows());
    links_.set(links_.column("globalPid"), identity.global_pid);
    links_.set(links_.column("domainId"), nccl_domain);
    links_.set(links_.column("payloadSchemaID"), payload.schema_id);
    links_.insert();
  }

  /// Nothing in these tables tells processes apart: every process repeats its schemas.
  void schema_rows() {
    for (const auto& [id, payload] : schemas_) {
      schema_table_.set(schema_table_.column("domainId"), nccl_domain);
      schema_table_.set(schema_table_.column("schemaId"), id);
      schema_table_.set(schema_table_.column("type"), 1);
      schema_table_.set(schema_table_.column("numEntries"), static_cast<std::int64_t>(payload.fields.size()));
      schema_table_.set(schema_table_.column("payloadSize"), payload.size);
      schema_table_.insert();
      for (std::size_t i = 0; i < payload.fields.size(); ++i) {
        const PayloadField& field = payload.fields[i];
        entry_table_.set(entry_table_.column("domainId"), nccl_domain);
        entry_table_.set(entry_table_.column("schemaId"), id);
        entry_table_.set(entry_table_.column("idx"), static_cast<std::int64_t>(i));
        entry_table_.set(entry_table_.column("type"), field.type);
        entry_table_.set_text(entry_table_.column("name"), field.label);
        if (field.offset == 0)
          entry_table_.set_null(entry_table_.column("offset"));  // as nsys writes 0
        else
          entry_table_.set(entry_table_.column("offset"), field.offset);
        entry_table_.insert();
      }
    }
    schemas_.clear();
  }

  ExportContext& context_;
  const ExportStyle& style_;
  Table table_;
  NvtxColumns columns_;
  Table schema_table_ = context_.table("NVTX_PAYLOAD_SCHEMAS");
  Table entry_table_ = context_.table("NVTX_PAYLOAD_SCHEMA_ENTRIES");
  Table links_ = context_.table("NVTX_EVENTS_PAYLOAD_SCHEMAS");
  Table translation_table_ = context_.table("NVTX_EXPORT_TRANSLATION");
  std::int64_t process_ = 0;                          ///< globalPid being written
  std::map<std::int64_t, NcclPayload> schemas_;       ///< used by that process
  std::map<std::uint64_t, std::int64_t> categories_;  ///< of its communicators, by hash
  std::map<std::string, std::unique_ptr<Table>> dynamic_;
  std::map<std::string, std::string> translations_;
};

}  // namespace

void write_nvtx_rows(ExportContext& context) {
  NvtxWriter(context).write();
}

}  // namespace nsys_explain::synth
