#include "pipeline/investigate/case_tables.hpp"

#include <fmt/format.h>

#include "analysis/causes/causes.hpp"
#include "model/schema/job.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::pipeline {
namespace {

using enum ColumnKind;

TableSchema cases_schema(const schema::Cases& declaration) {
  TableSchema schema = declaration.table_schema();
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

void write_member(RowWriter& row, const analysis::CaseMember& member) {
  const WorkProfile& profile = member.profile;
  row << member.work_ns << std::int64_t{profile.kernels} << std::int64_t{profile.kernel_ns}
      << std::int64_t{profile.synchronisations} << std::int64_t{profile.allocations};
  for (const std::uint32_t part_ns : profile.parts_ns) row << std::int64_t{part_ns};
}

void write_cases(Table& table, const CasesOfStraggler& of, std::optional<Cause> compute) {
  RowWriter row(table);
  for (const analysis::StragglerCase& one : of.cases) {
    const analysis::CaseVerdict verdict = analysis::judge_case(one, compute);
    row << std::int64_t{of.trace_rank} << one.instance << one.last_enter_ns << one.caused_wait_ns << one.own_lateness_ns
        << std::int64_t{one.peer.trace_rank} << (verdict.counts ? cause_name(verdict.cause) : "none")
        << (verdict.counts ? work_parts()[static_cast<std::size_t>(verdict.part)].name : "none") << one.same_kernels;
    write_member(row, one.straggler);
    write_member(row, one.peer);
  }
}

}  // namespace

CaseTables::CaseTables()
    : cases_(make_table(cases_schema(schema::straggler_cases))),
      differences_(make_table(schema::straggler_differences)),
      long_waits_(make_table(cases_schema(schema::long_waits))) {}

void CaseTables::add_cases(const CasesOfStraggler& of, std::optional<Cause> compute) {
  write_cases(cases_, of, compute);
}

void CaseTables::add_long_wait(const CasesOfStraggler& of, std::optional<Cause> compute) {
  write_cases(long_waits_, of, compute);
}

void CaseTables::add_differences(std::int32_t straggler, const analysis::Divergence& divergence) {
  RowWriter row(differences_);
  for (const analysis::WorkDifference& difference : divergence.differences) {
    row << std::int64_t{straggler} << analysis::work_event_kind_name(difference.kind)
        << std::string_view(difference.name) << std::string_view(difference.shape) << std::string_view(difference.range)
        << difference.straggler_count << difference.peer_count << difference.straggler_ns << difference.peer_ns
        << difference.difference_ns();
  }
}

}  // namespace nsys_explain::pipeline
