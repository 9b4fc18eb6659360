#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Names of files: patterns, placeholders, and the ranks that they tell.
namespace nsys_explain::ingest {

// Shell patterns expanded by ourselves: a shell cannot expand names on another host's disk.

/// True if `text` holds one of * ? [.
bool is_pattern(const std::string& text);

/// True if the whole of `name` matches. `*` also matches '/'; bytes, not characters, are compared.
bool matches_pattern(const std::string& pattern, const std::string& name);

struct Expansion {
  std::vector<std::string> matches;     ///< sorted bytewise, each once; may include dangling links
  std::vector<std::string> unreadable;  ///< directories that could not be listed, sorted
};

/// Names that exist on this host and match. * ? [...] work in any path component and do not match a leading dot;
/// a component `**` stands for any number of directories (symbolic links to directories are not followed there), and
/// as the last one for every *.sqlite below. A component that exists literally is taken literally.
Expansion expand_pattern(const std::string& pattern);

/// The name with the placeholders that nsys takes in `-o` put in: %h the host's name (its first label), %q{VAR} the
/// environment variable VAR, %% a per cent sign. Others (%p, %n) differ from process to process and become `*`.
struct ExpandedName {
  std::string name;
  std::optional<std::string> unset_variable;  ///< the first %q{VAR} that is not set here; `name` is then of no use
};

/// True if the name holds a placeholder.
bool has_placeholder(std::string_view name);

ExpandedName expand_placeholders(std::string_view name);

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
