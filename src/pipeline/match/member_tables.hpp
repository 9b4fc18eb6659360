#pragma once

#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/match/match_collectives.hpp"

/// Who lacks what in which communicator, and where its members first part (collectives/mismatches.hpp).
namespace nsys_explain::pipeline {

/// Empty tables with their schemas.
Table communicator_members_table();
Table communicator_mismatches_table();

/// Collective: both tables of the run, on every tool rank.
std::vector<Table> member_tables(const exchange::Communicator& communicator, const CrossRank& cross);

/// What the user should know of them.
std::vector<Warning> mismatch_warnings(const std::vector<Table>& tables);

}  // namespace nsys_explain::pipeline
