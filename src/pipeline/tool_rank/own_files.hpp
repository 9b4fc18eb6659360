#pragma once

#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

#include "nsys_explain/ingest/discovery.hpp"
#include "pipeline/tool_rank/job.hpp"

/// What in a directory this program wrote, told by what files hold and not by their names alone: only that is ever
/// replaced or removed.
namespace nsys_explain::pipeline {

inline constexpr std::string_view store_name = "store.h5", json_name = "report.json", markdown_name = "report.md",
                                  page_name = "report.html", tables_name = "tables";

inline constexpr std::array result_names = {store_name, markdown_name, page_name, json_name};

/// How the attribute `format` of a store begins.
inline constexpr std::string_view store_mark = "nsys-explain-mpi store";

/// What lies where this program writes. Our files may be removed last to first: directories that hold nothing else come
/// before what they hold.
struct OwnFiles {
  std::vector<std::filesystem::path> ours;
  std::vector<std::filesystem::path> others;
};

/// The results of an earlier run: its store.h5 says whose it is, and which tables it has. Each of these is ours as CSV
/// where it begins with the names of its columns.
OwnFiles results_in(const std::filesystem::path& output_directory);

inline constexpr std::string_view comparison_json_name = "compare.json";
inline constexpr std::array comparison_names = {comparison_json_name, std::string_view("compare.md"),
                                                std::string_view("compare.html")};

/// The results of an earlier comparison: its compare.json says whose it is.
OwnFiles comparison_in(const std::filesystem::path& output_directory);

/// The records, whole and unfinished, in a directory of them.
OwnFiles records_in(const std::filesystem::path& directory);

/// Our files where there are no others. Throws std::runtime_error (problem, why it matters, what to do) where there
/// are.
std::vector<std::filesystem::path> only_ours(OwnFiles files);

// Files that a run writes outside of its results, where an option says: --prometheus, --perfetto.

/// Before anything is read. Throws std::runtime_error (problem, why it matters, what to do) where such a file would
/// replace what the user did not allow to replace, a file of an option, a result of this run, or the other such file.
/// What an earlier run wrote is replaced where its beginning says so.
void check_outside_files(const JobSpecification& job);

/// Throws so where such a file is a trace that was found, under whatever name.
void require_outside_of_traces(const JobSpecification& job, const ingest::MergedDiscovery& found);

}  // namespace nsys_explain::pipeline
