#include "pipeline/investigate/case_tables.hpp"

#include <fmt/format.h>

#include "analysis/causes/causes.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::pipeline {
namespace {

using enum ColumnKind;

TableSchema cases_schema(std::string name, std::string description) {
  TableSchema schema{std::move(name),
                     std::move(description),
                     {{"trace_rank", integer, "", "the last arriver"},
                      {"instance", integer, "", "row of collective_instances"},
                      {"last_enter_ns", integer, "ns", "job time at which it entered"},
                      {"caused_wait_ns", integer, "ns",
                       "waiting that would vanish without its own lateness; where the case is "
                       "the longest work rather than the longest wait, own_lateness_ns"},
                      {"own_lateness_ns", integer, "ns", "lateness by own work"},
                      {"peer_trace_rank", integer, "", "the peer: median work of those that did the same"},
                      {"cause", text, "", "what this case speaks for; none: behind since an earlier collective"},
                      {"part", text, "", "what differs most for that cause"},
                      {"same_kernels", integer, "", "1: both launched the same kernels with the same grids"}}};
  for (const char* who : {"", "peer_"}) {
    const char* whose = *who == '\0' ? "the last arriver" : "the peer";
    const auto add = [&](std::string column, std::string unit, std::string meaning) {
      schema.columns.push_back({who + std::move(column), integer, std::move(unit), std::move(meaning)});
    };
    add("work_ns", "ns", fmt::format("{}: from the latest communication exit to the enter", whose));
    add("kernels", "", fmt::format("{}: compute kernels launched since the previous collective", whose));
    add("kernel_ns", "ns", fmt::format("{}: sum of their durations", whose));
    add("synchronisations", "", fmt::format("{}: synchronising calls meanwhile", whose));
    add("allocations", "", fmt::format("{}: allocating and freeing calls meanwhile", whose));
    for (const WorkPartMeaning& part : work_parts()) {
      add(fmt::format("{}_ns", part.name), "ns", fmt::format("{}: time of the work in which {}", whose, part.meaning));
    }
  }
  return schema;
}

TableSchema differences_schema() {
  return {"straggler_differences",
          "What stragglers did differently from a peer before the worst of straggler_cases, largest difference first",
          {{"trace_rank", integer, "", "the straggler"},
           {"kind", text, "", "kernel, copy, call, range (NVTX) or host_stall"},
           {"name", ColumnKind::text, "", "kernel, kind of copy, CUDA call, NVTX range, system call"},
           {"shape", ColumnKind::text, "", "grid and block of a kernel, bytes of a copy"},
           {"count", integer, "", "on the straggler"},
           {"peer_count", integer, "", "on the peer"},
           {"total_ns", integer, "ns", "on the straggler"},
           {"peer_total_ns", integer, "ns", "on the peer"},
           {"difference_ns", integer, "ns", "straggler less peer"}}};
}

void write_member(RowWriter& row, const analysis::CaseMember& member) {
  const WorkProfile& profile = member.profile;
  row << member.work_ns << std::int64_t{profile.kernels} << std::int64_t{profile.kernel_ns}
      << std::int64_t{profile.synchronisations} << std::int64_t{profile.allocations};
  for (const std::uint32_t part_ns : profile.parts_ns) row << std::int64_t{part_ns};
}

void write_cases(Table& table, const CasesOfStraggler& of, const analysis::Divergence* divergence) {
  RowWriter row(table);
  for (const analysis::StragglerCase& one : of.cases) {
    const analysis::CaseVerdict verdict = analysis::judge_case(one, divergence);
    row << std::int64_t{of.trace_rank} << one.instance << one.last_enter_ns << one.caused_wait_ns << one.own_lateness_ns
        << std::int64_t{one.peer.trace_rank} << (verdict.counts ? cause_name(verdict.cause) : "none")
        << (verdict.counts ? work_parts()[static_cast<std::size_t>(verdict.part)].name : "none") << one.same_kernels;
    write_member(row, one.straggler);
    write_member(row, one.peer);
  }
}

}  // namespace

CaseTables::CaseTables()
    : cases_(make_table(cases_schema("straggler_cases",
                                     "Collectives that stragglers delayed, one per span of time, with the work of the "
                                     "straggler and of a median peer before them"))),
      differences_(make_table(differences_schema())),
      long_waits_(make_table(cases_schema("long_waits",
                                          "Single collectives that hold much of the waiting, longest first, with the "
                                          "work of the last arriver and of a median peer before them"))) {}

void CaseTables::add_cases(const CasesOfStraggler& of, const analysis::Divergence* divergence) {
  write_cases(cases_, of, divergence);
}

void CaseTables::add_long_wait(const CasesOfStraggler& of, const analysis::Divergence* divergence) {
  write_cases(long_waits_, of, divergence);
}

void CaseTables::add_differences(std::int32_t straggler, const analysis::Divergence& divergence) {
  RowWriter row(differences_);
  for (const analysis::WorkDifference& difference : divergence.differences) {
    row << std::int64_t{straggler} << analysis::work_event_kind_name(difference.kind)
        << std::string_view(difference.name) << std::string_view(difference.shape) << difference.straggler_count
        << difference.peer_count << difference.straggler_ns << difference.peer_ns << difference.difference_ns();
  }
}

}  // namespace nsys_explain::pipeline
