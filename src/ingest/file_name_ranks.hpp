#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nsys_explain::ingest {

/// Order of names in which digits compare as numbers: rank2 before rank10. A strict total order.
bool natural_less(std::string_view a, std::string_view b);

/// Ranks as file names tell them, parallel to `paths` (distinct, one trace rank each); nothing unless the names give
/// every file another number. Tried in this order:
///  1. the last number after "rank" (as in rank3, rank_3, RANK-3), unless it is a local, node or group rank;
///  2. the last number after "mpi";
///  3. with at least two files: a plain number of the file name, or else of the nearest directory, that differs between
///     all files: of several (a rank and a process id) the one with the smallest maximum. Numbers above 9999 are job
///     or process ids, those after words such as "node" or "gpu" say so themselves, and nsys' own report1, report2, ...
///     count files, not ranks.
/// Names are written so in practice: -o name_%q{SLURM_JOB_ID}_rank_%q{SLURM_PROCID}_%h, %p, %n.
std::optional<std::vector<std::int32_t>> file_name_ranks(const std::vector<std::string>& paths);

}  // namespace nsys_explain::ingest
