#include "pipeline/read/trace_records.hpp"

#include <fmt/format.h>

#include "ingest/input_file.hpp"
#include "pipeline/read/code_digest.hpp"
#include "pipeline/read/record_checks.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain {

template <class Archive>
void serialize(Archive& archive, Interval& interval) {
  archive(interval.start_ns, interval.end_ns);
}

}  // namespace nsys_explain

namespace nsys_explain::pipeline {
namespace {

/// Rows without strings, compressed while they lie in the record.
template <class T>
struct Rows {
  std::vector<T>& rows;

  template <class Archive>
  void save(Archive& archive) const {
    archive(PackedRows<T>(rows));
  }
  template <class Archive>
  void load(Archive& archive) {
    PackedRows<T> packed;
    archive(packed);
    rows = packed.rows();
  }
};

template <class T>
Rows<T> packed(std::vector<T>& rows) {
  return {rows};
}

}  // namespace

/// Naming every member in a binding keeps this complete: one more member, and it does not compile.
template <class Archive>
void serialize(Archive& archive, LocalRank& rank) {
  auto& [key, trace_rank, session, budget, arrivals, steps, with_more, timeline, kernel_names, profiles, pieces,
         exposed, memberships, names, tables, clock] = rank;
  // Number, session, timeline and clock come later, from all traces together.
  archive(key, budget, packed(arrivals), steps.source, packed(steps.start_ns), steps.end_ns, steps.numbered,
          steps.first_number, with_more, kernel_names, profiles, pieces, exposed, packed(memberships), names, tables);
}

template <class Archive>
void serialize(Archive& archive, LocalTrace& trace) {
  archive(trace.facts, trace.ranks, trace.hosts, trace.recorded_steps, trace.windows);
}

namespace {

/// What all tool ranks have agreed to read of a trace; empty: what it proposes itself.
std::string agreed_text(const ingest::AssignedTrace& trace, const ReadSettings& settings) {
  std::string text;
  if (const analysis::ProcessWindows* const agreed = agreed_windows(settings, trace.name)) {
    for (const auto& [process, window] : *agreed)
      text += fmt::format(" {} {} {}", process, window.start_ns, window.end_ns);
  }
  return text;
}

std::string record_key(const ingest::AssignedTrace& trace, const ReadSettings& settings) {
  return fmt::format(
      "{} {} trace {} {} {} {} {} | bytes {} modified {} sample {:x} | options {:x} epoch {} reader {} |{} | {}",
      NSYS_EXPLAIN_VERSION, code_digest(), sizeof(TraceArrival), sizeof(WorkProfile), sizeof(analysis::TracePiece),
      sizeof(Budget), sizeof(analysis::Steps), trace.bytes, trace.modified_ns, trace.sample_hash,
      settings.options.reading_digest, settings.epoch_utc_ns, static_cast<int>(settings.reader),
      agreed_text(trace, settings), trace.name);
}

std::optional<LocalTrace> unpack_trace(const std::optional<std::string>& bytes) {
  if (!bytes) return std::nullopt;
  try {
    std::optional<LocalTrace> trace = unpack<LocalTrace>(*bytes);
    return can_be_read(*trace) ? std::move(trace) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;  // of another layout, though the key does not tell: as good as none
  }
}

}  // namespace

std::optional<LocalTrace> TraceRecords::load(const ingest::AssignedTrace& assigned,
                                             const ReadSettings& settings) const {
  if (ingest::has_sidecar(assigned.path)) return std::nullopt;  // the fingerprint says nothing about it
  const std::string key = record_key(assigned, settings);
  std::vector<RecordDirectory> directories = places_.sources;
  for (const auto* place : {&places_.cache, &places_.shards}) {
    if (*place) directories.push_back(**place);
  }
  for (const RecordDirectory& directory : directories) {
    if (std::optional<LocalTrace> trace = unpack_trace(directory.load(key))) return trace;
  }
  if (places_.cache && places_.cache->is_foreign(key)) {
    const std::scoped_lock lock(mutex_);
    failure_ = fmt::format(
        "does not take {}: another user made it or can write to it, so it may say anything; the trace is read itself; give a --cache of your own",
        places_.cache->file_of(key).string());
  }
  return std::nullopt;
}

void TraceRecords::save(const ingest::AssignedTrace& assigned, const ReadSettings& settings, const LocalTrace& trace,
                        bool was_loaded) {
  const bool keeps = places_.cache || places_.shards;
  if (!keeps || ingest::has_sidecar(assigned.path)) return;
  const std::string key = record_key(assigned, settings);
  const WriteBytes write = [&](std::streambuf& bytes) { write_packed(trace, bytes); };
  if (places_.shards) {
    if (const auto file = save_in(*places_.shards, key, write, was_loaded)) {
      const std::scoped_lock lock(mutex_);
      saved_shards_.insert(*file);
    }
  }
  // A file that was being written while it was read is not what its fingerprint says.
  if (places_.cache && trace.facts.analysed && (was_loaded || ingest::is_as_found(assigned))) {
    save_in(*places_.cache, key, write, was_loaded);
  }
}

std::optional<std::filesystem::path> TraceRecords::save_in(const RecordDirectory& directory, const std::string& key,
                                                           const WriteBytes& write, bool may_be_there) {
  try {
    return may_be_there && directory.contains(key) ? directory.file_of(key) : directory.save(key, write);
  } catch (const std::exception& error) {
    const std::scoped_lock lock(mutex_);
    if (failure_.empty()) failure_ = error.what() + std::string(what_is_lost);
    return std::nullopt;
  }
}

void TraceRecords::discard_shards() {
  std::error_code ignored;
  for (const std::filesystem::path& file : saved_shards_) std::filesystem::remove(file, ignored);
  saved_shards_.clear();
}

std::string TraceRecords::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

}  // namespace nsys_explain::pipeline
