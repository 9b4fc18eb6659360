#pragma once

#include <span>
#include <vector>

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/attribute/attribution.hpp"
#include "pipeline/match/cross_rank.hpp"

/// The tables of docs/outputs.md as model tables; the store and the CSV files write what stands here.
namespace nsys_explain::pipeline {

/// One instance as it travels to rank 0. `instance` and `first_row` are set there.
struct InstanceRow {
  std::int32_t communicator = 0;
  std::int32_t reserved = 0;
  Instance instance;
};

/// One arrival of a block, which must remain.
struct ArrivalRow {
  std::int64_t number = 0;  ///< of the instance in the job
  const Instance* instance = nullptr;
  const InstanceArrival* arrival = nullptr;
};

/// `first_instance[c]` is the number of instance 0 of communicator c.
Table instances_chunk(std::span<const InstanceRow> rows,
                      const std::vector<collectives::PlannedCommunicator>& communicators,
                      std::span<const std::int64_t> first_instance);
Table arrivals_chunk(std::span<const ArrivalRow> rows);

/// Of tables with so many rows of the job, whatever their texts.
TableExtent instances_extent(std::int64_t rows, const std::vector<collectives::PlannedCommunicator>& communicators);
TableExtent arrivals_extent(std::int64_t rows);
TableExtent steps_extent(std::int64_t rows);

Table steps_chunk(std::span<const StepRow> rows);

Table findings_table(const JobReport& report);
Table what_if_table(const JobReport& report);
Table slowdown_table(const JobReport& report);
Table critical_path_table(const JobReport& report);
Table exposed_communication_table(const JobReport& report);
Table step_budget_table(const JobReport& report);
Table stragglers_table(const JobReport& report);
Table trace_ranks_table(const JobReport& report);
Table host_processes_table(const JobReport& report);
Table ranks_table(const JobReport& report);
Table communicators_table(const JobReport& report);
Table operations_table(const JobReport& report);
Table clock_table(const JobReport& report);
Table clock_residuals_table(const JobReport& report);

/// All of these, once everything is known.
std::vector<Table> job_tables(const JobReport& report);

}  // namespace nsys_explain::pipeline
