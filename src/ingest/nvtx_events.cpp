#include "ingest/event_readers.hpp"

#include <fmt/format.h>

#include "ingest/nccl_payload.hpp"
#include "ingest/rank_resolution.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

constexpr const char* table = "NVTX_EVENTS";

/// Ids of ENUM_NSYS_EVENT_TYPE in NVTX_EVENTS; the same from 2020 to 2026. The nvtxt ones are imported text files.
namespace event_type {
constexpr std::int64_t category = 33, mark = 34, thread_name = 39, push_pop = 59, start_end = 60, nvtxt_mark = 65,
                       nvtxt_push_pop = 70, nvtxt_start_end = 71, domain_create = 75;
}

std::optional<NvtxKind> kind_of(std::int64_t type) {
  switch (type) {
    case event_type::mark:
    case event_type::nvtxt_mark:
      return NvtxKind::mark;
    case event_type::push_pop:
    case event_type::nvtxt_push_pop:
      return NvtxKind::push_pop;
    case event_type::start_end:
    case event_type::nvtxt_start_end:
      return NvtxKind::start_end;
    default:
      return std::nullopt;
  }
}

/// A domain of one process: numbers mean something within a process only.
struct Domain {
  std::uint64_t global_pid = 0;
  std::int64_t number = 0;
  StringIndex name = 0;
  Nanoseconds named_at_ns = no_time;
  bool has_legacy_labels = false, has_advanced_labels = false;
};

/// All domains, each with a slot number that a range carries until the names are known: the row that names a domain may
/// come after its ranges, or never.
class DomainTable {
 public:
  std::uint32_t slot(std::uint64_t global_pid, std::int64_t number) {
    if (domains_.empty() || domains_[last_].global_pid != global_pid || domains_[last_].number != number) {
      const auto [place, is_new] =
          slots_.try_emplace({global_pid, number}, static_cast<std::uint32_t>(domains_.size()));
      if (is_new) domains_.push_back({global_pid, number});
      last_ = place->second;
    }
    return last_;
  }
  Domain& operator[](std::uint32_t slot) { return domains_[slot]; }
  const Domain& operator[](std::uint32_t slot) const { return domains_[slot]; }
  std::vector<Domain>& all() { return domains_; }

 private:
  std::map<std::pair<std::uint64_t, std::int64_t>, std::uint32_t> slots_;
  std::vector<Domain> domains_;
  std::uint32_t last_ = 0;
};

enum class PayloadState : std::uint8_t { absent, decoded, undecodable };

/// A call into NCCL if the domain of its range turns out to be NCCL's.
struct PossibleCall {
  NvtxRange range;
  NcclLabel label;
  std::int64_t category = 0;  ///< as the domain numbers it; 0: none
  PayloadState state = PayloadState::absent;
  NcclPayload payload;
};

/// What categories are called, by slot of the domain that they are numbered in, and number.
using CategoryNames = std::map<std::pair<std::uint32_t, std::int64_t>, StringIndex>;

/// By the numbers of domain and category: 1, 2, ... within a process.
using CategoryNumbers = std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t>;

struct Columns {
  explicit Columns(TableScan& table_scan)
      : scan(table_scan),
        start(scan.integer("start", Presence::required)),
        end(scan.integer("end", Presence::required)),
        type(scan.integer("eventType", Presence::required)),
        global_tid(scan.integer("globalTid", Presence::required)),
        end_global_tid(scan.integer("endGlobalTid")),
        text_id(scan.integer("textId")),
        category(scan.integer("category")),
        domain(scan.integer("domainId")),
        json_text_id(scan.integer("jsonTextId")),
        event_id(scan.integer("eventId")),
        text(scan.text("text")),
        json_text(scan.text("jsonText")),
        binary(scan.text("binaryData")) {}

  TableScan& scan;
  IntegerColumn start, end, type, global_tid, end_global_tid, text_id, category, domain, json_text_id, event_id;
  TextColumn text, json_text, binary;
};

/// Text of a row as kept in the trace, and what it would mean in NCCL's domain.
struct Label {
  StringIndex text = 0;
  std::optional<NcclLabel> nccl;
};

struct CallCounts {
  std::int64_t without_payload = 0, undecodable = 0;
};

class NvtxReader {
 public:
  explicit NvtxReader(const Reading& reading)
      : reading_(reading),
        schemas_(reading.database),
        dynamic_payloads_(read_dynamic_payloads(reading.database)),
        filter_(reading.time_base, table) {}

  void read();
  ThreadNameRanks take_thread_name_ranks() { return std::move(thread_name_ranks_); }

 private:
  void read_row(const Columns& columns, std::size_t row);
  void read_mpi_calls();
  void name_domain(const Columns& columns, std::size_t row);
  void name_category(const Columns& columns, std::size_t row);
  void see_thread_name(const Columns& columns, std::size_t row);
  Label label(const Columns& columns, std::size_t row, bool may_be_nccl);
  std::string_view raw_text(const Columns& columns, std::size_t row) const;
  PossibleCall possible_call(const Columns& columns, std::size_t row, const NvtxRange& range,
                             const NcclLabel& label) const;
  void settle_domains();
  void settle_process(ProcessTrace& process, std::vector<PossibleCall>& possible);
  bool is_of_nccl(const NvtxRange& range) const { return reading_.strings.kept(domains_[range.domain].name) == "NCCL"; }
  CategoryNumbers number_categories(const std::vector<PossibleCall>& possible) const;
  void report_calls() const;

  const Reading& reading_;
  PayloadSchemas schemas_;
  std::unordered_map<std::int64_t, NcclPayload> dynamic_payloads_;
  TimeFilter filter_;
  DomainTable domains_;
  CategoryNames category_names_;
  std::unordered_map<std::int64_t, Label> registered_;  ///< by StringIds id
  std::map<std::uint64_t, std::vector<PossibleCall>> possible_calls_;
  ThreadNameRanks thread_name_ranks_;
  CallCounts counts_;
  std::int64_t open_ranges_ = 0;
};

void NvtxReader::read() {
  TableScan scan(reading_.database, table);
  const Columns columns(scan);
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) read_row(columns, row);
  });
  filter_.report(reading_.warnings);
  read_mpi_calls();
  settle_domains();
  for (auto& [global_pid, process] : reading_.builder.processes()) settle_process(process, possible_calls_[global_pid]);
  report_calls();
}

void NvtxReader::read_row(const Columns& columns, std::size_t row) {
  const std::int64_t type = columns.type[row];
  if (type == event_type::domain_create) return name_domain(columns, row);
  if (type == event_type::category) return name_category(columns, row);
  if (type == event_type::thread_name) return see_thread_name(columns, row);
  const auto kind = kind_of(type);
  if (!kind) return;
  const auto time = filter_.accept_open(columns.start[row], *kind == NvtxKind::mark ? no_time : columns.end[row]);
  if (!time) return;
  if (*kind != NvtxKind::mark && time->end_ns == no_time) ++open_ranges_;

  const std::int64_t tid = zero_if_null(columns.global_tid[row]);
  const std::int64_t domain_number = zero_if_null(columns.domain[row]);
  NvtxRange range;
  range.start_ns = time->start_ns;
  range.end_ns = time->end_ns;
  range.thread_id = thread_id_of(tid);
  range.end_thread_id =
      columns.end_global_tid[row] == no_time ? range.thread_id : thread_id_of(columns.end_global_tid[row]);
  range.kind = *kind;
  range.domain = domains_.slot(process_of(tid), domain_number);

  const auto share_read = [&] { return columns.scan.share_read(row); };
  const bool may_be_nccl = domain_number != 0 && *kind != NvtxKind::mark;
  const Label text = label(columns, row, may_be_nccl);
  range.text = text.text;
  if (may_be_nccl && text.nccl) {
    Domain& domain = domains_[range.domain];
    (text.nccl->is_legacy ? domain.has_legacy_labels : domain.has_advanced_labels) = true;
    range.is_nccl_call = true;
    append_event(possible_calls_[process_of(tid)], possible_call(columns, row, range, *text.nccl), share_read);
  }
  append_event(reading_.builder.process(process_of(tid)).nvtx_ranges, range, share_read);
}

/// As ranges of a domain of their own.
void NvtxReader::read_mpi_calls() {
  constexpr std::int64_t no_number = -1;  // of a domain of NVTX
  ingest::read_mpi_calls(reading_, [&](ProcessTrace& process, NvtxRange range) {
    range.domain = domains_.slot(process.global_pid, no_number);
    domains_[range.domain].name = reading_.strings.keep("MPI");
    process.nvtx_ranges.push_back(range);
  });
}

std::string_view NvtxReader::raw_text(const Columns& columns, std::size_t row) const {
  return is_null(columns.text[row]) ? reading_.strings.value(columns.text_id[row]) : columns.text[row];
}

void NvtxReader::name_domain(const Columns& columns, std::size_t row) {
  const std::int64_t tid = zero_if_null(columns.global_tid[row]);
  Domain& domain = domains_[domains_.slot(process_of(tid), zero_if_null(columns.domain[row]))];
  // Of several names for one number the first in time counts.
  if (domain.name != 0 && columns.start[row] >= domain.named_at_ns) return;
  domain.name = reading_.strings.keep_masked(raw_text(columns, row));
  domain.named_at_ns = columns.start[row];
}

/// A name that is given anew is taken by its text, so that it does not depend on the order of rows.
void NvtxReader::name_category(const Columns& columns, std::size_t row) {
  const std::string_view name = raw_text(columns, row);
  if (name.empty()) return;
  const std::int64_t tid = zero_if_null(columns.global_tid[row]);
  const std::pair key(domains_.slot(process_of(tid), zero_if_null(columns.domain[row])),
                      zero_if_null(columns.category[row]));
  const StringIndex kept = reading_.strings.keep_masked(name);
  const auto [known, is_new] = category_names_.try_emplace(key, kept);
  if (!is_new && reading_.strings.kept(kept) < reading_.strings.kept(known->second)) known->second = kept;
}

void NvtxReader::see_thread_name(const Columns& columns, std::size_t row) {
  constexpr std::string_view prefix = "MPI Rank ";
  const std::string_view name = raw_text(columns, row);
  if (!name.starts_with(prefix)) return;
  if (const auto rank = parse_rank_number(name.substr(prefix.size())))
    thread_name_ranks_[process_of(zero_if_null(columns.global_tid[row]))].insert(*rank);
}

Label NvtxReader::label(const Columns& columns, std::size_t row, bool may_be_nccl) {
  if (!is_null(columns.text[row])) {
    const std::string_view text = columns.text[row];
    return {reading_.strings.keep_masked(range_name(text)), may_be_nccl ? parse_nccl_label(text) : std::nullopt};
  }
  const auto [place, is_new] = registered_.try_emplace(columns.text_id[row]);
  if (is_new) {
    place->second.text = reading_.strings.keep_id_masked(columns.text_id[row]);
    place->second.nccl = parse_nccl_label(reading_.strings.value(columns.text_id[row]));
  }
  return place->second;
}

/// Dynamic tables are the exporter's own decoding and know the process; bytes come next; JSON repeats them as text.
PossibleCall NvtxReader::possible_call(const Columns& columns, std::size_t row, const NvtxRange& range,
                                       const NcclLabel& label) const {
  PossibleCall call;
  call.range = range;
  call.label = label;
  call.category = zero_if_null(columns.category[row]);
  std::optional<NcclPayload> payload;
  if (const auto found = dynamic_payloads_.find(columns.event_id[row]); found != dynamic_payloads_.end())
    payload = found->second;
  const std::string_view bytes = columns.binary[row];
  const std::string_view json =
      is_null(columns.json_text[row]) ? reading_.strings.value(columns.json_text_id[row]) : columns.json_text[row];
  if (!payload && !bytes.empty()) payload = decode_binary_payload(bytes, schemas_);
  if (!payload && !json.empty()) payload = decode_json_payload(json);
  if (payload) {
    call.state = PayloadState::decoded;
    call.payload = *payload;
  } else if (!bytes.empty() || !json.empty()) {
    call.state = PayloadState::undecodable;
  }
  return call;
}

/// Windowed exports lose the rows that name domains. NCCL's own is then known by its labels, those of the advanced
/// trace only together with a payload schema that NCCL alone has.
void NvtxReader::settle_domains() {
  std::int64_t recognised = 0;
  for (Domain& domain : domains_.all()) {
    if (domain.name != 0 || domain.number == 0) continue;
    if (domain.has_legacy_labels || (domain.has_advanced_labels && schemas_.is_nccl_domain(domain.number))) {
      domain.name = reading_.strings.keep("NCCL");
      ++recognised;
    }
  }
  if (recognised > 0) {
    reading_.warnings.push_back(
        {Severity::info, WarningSource::trace, recognised,
         "the export does not name the NVTX domain of NCCL: it was recognised by its labels; an export of the whole capture names it"});
  }
}

bool carries_payload(NcclFunction function) {
  return function != NcclFunction::group_start && function != NcclFunction::group_end &&
         function != NcclFunction::other;
}

NcclCall make_call(const PossibleCall& possible) {
  const NvtxRange& range = possible.range;
  NcclCall call;
  call.start_ns = range.start_ns;
  call.end_ns = range.end_ns;
  call.thread_id = range.thread_id;
  call.function = possible.payload.is_one_channel ? NcclFunction::other : possible.label.function;
  call.communicator = possible.payload.communicator;
  call.bytes = possible.payload.bytes;
  call.sequence = possible.payload.sequence;
  call.peer_or_root = possible.payload.peer_or_root;
  call.rank = possible.payload.rank;
  call.rank_count = possible.payload.rank_count;
  call.device = possible.payload.device;
  return call;
}

/// Those of NCCL's calls, in ascending order: how the trace itself numbers them is not known.
CategoryNumbers NvtxReader::number_categories(const std::vector<PossibleCall>& possible) const {
  CategoryNumbers numbers;
  for (const PossibleCall& call : possible)
    if (call.category != 0 && is_of_nccl(call.range)) numbers[{domains_[call.range.domain].number, call.category}] = 0;
  std::uint32_t next = 1;
  for (auto& [category, number] : numbers) number = next++;
  return numbers;
}

/// Settles what was open until all rows were read: the order of ranges, the names of their domains, and which of them
/// are NCCL's.
void NvtxReader::settle_process(ProcessTrace& process, std::vector<PossibleCall>& possible) {
  const auto earlier = [](const NvtxRange& a, const NvtxRange& b) {
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    return std::tie(a.end_ns, a.thread_id, a.end_thread_id, a.kind, a.text) <
           std::tie(b.end_ns, b.thread_id, b.end_thread_id, b.kind, b.text);
  };
  process.nvtx_ranges.sort(earlier);
  sort_nearly_sorted(possible, [&](const PossibleCall& a, const PossibleCall& b) { return earlier(a.range, b.range); });
  const CategoryNumbers categories = number_categories(possible);

  // The advanced trace shows one call several times: as called, as run, and on the GPU. The first is the call.
  std::set<std::pair<std::int64_t, NcclFunction>> seen_calls;
  process.nccl_calls.reserve(possible.size());
  for (const PossibleCall& candidate : possible) {
    if (!is_of_nccl(candidate.range)) continue;
    NcclCall call = make_call(candidate);
    if (candidate.category != 0) {
      call.category = categories.at({domains_[candidate.range.domain].number, candidate.category});
      const auto named = category_names_.find({candidate.range.domain, candidate.category});
      if (named != category_names_.end()) call.category_name = named->second;
    }
    const std::int64_t call_id = candidate.payload.call_id;
    if (call_id >= 0 && carries_payload(call.function) && !seen_calls.emplace(call_id, call.function).second)
      call.function = NcclFunction::other;
    if (candidate.state == PayloadState::undecodable) ++counts_.undecodable;
    if (candidate.state == PayloadState::absent && carries_payload(call.function)) ++counts_.without_payload;
    process.nccl_calls.push_back(call);
  }
  process.nvtx_ranges.change_kinds([&](NvtxRange& range) {
    range.is_nccl_call = range.is_nccl_call && is_of_nccl(range);
    range.domain = domains_[range.domain].name;
  });
}

void NvtxReader::report_calls() const {
  const auto warn = [&](Severity severity, std::int64_t count, std::string message) {
    if (count > 0) reading_.warnings.push_back({severity, WarningSource::trace, count, std::move(message)});
  };
  warn(
      Severity::data_loss, counts_.undecodable,
      "NCCL calls carry payload bytes in a layout that is not known (NCCL 2.16 to 2.30 are): communicator and message size of these calls are missing; export with --include-json=true");
  warn(
      Severity::info, counts_.without_payload,
      "NCCL calls have no payload in this export, so communicators and message sizes are inferred or missing; export with --include-blobs=true (NCCL 2.16 or later; communicators 2.25 or later)");
  warn(
      Severity::info, open_ranges_,
      "NVTX ranges were still open when the capture stopped: they have no end and no duration; end the capture after the ranges");
}

}  // namespace

ThreadNameRanks read_nvtx_events(const Reading& reading) {
  NvtxReader reader(reading);
  reader.read();
  return reader.take_thread_name_ranks();
}

}  // namespace nsys_explain::ingest
