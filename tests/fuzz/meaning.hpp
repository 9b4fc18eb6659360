#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "fuzz/changed_database.hpp"
#include "fuzz/hostile.hpp"

/// A fuzz of meaning: the values are such as a trace may hold, but they tell of another job.
namespace nsys_explain::meaning {

using hostile::ChangedDatabase;
using hostile::Draw;

/// The exports or traces of one job.
struct Job {
  std::string name;
  std::vector<std::filesystem::path> files;
};

/// The jobs in these directories: a directory without exports or traces of its own holds some of jobs. Throws
/// std::runtime_error where there is none.
std::vector<Job> find_jobs(const std::vector<std::string>& directories);

/// Words for ranges and kernels, and numbers in an order that some program counts in.
const std::string& word_for_range(Draw& draw);
const std::string& word_for_kernel(Draw& draw);
/// SQL and, from `n`, the number that it gives (as text: it may be longer than any integer).
struct Counting {
  std::string sql;  ///< of n
  std::string (*number)(std::int64_t n);
};
const Counting& way_of_counting(Draw& draw);
/// A time by which something may be shifted or stretched.
std::int64_t some_duration_ns(Draw& draw);

/// Which rows of the table: none, one, a few, half, all; of one time, thread, device, name.
std::string some_rows(ChangedDatabase& database, const std::string& table, Draw& draw);

/// An edit, and what it is called.
struct RowEdit {
  const char* name;
  void (*edit)(ChangedDatabase& database, Draw& draw);
};
std::vector<RowEdit> edits_of_names();   ///< meaning_names.cpp
std::vector<RowEdit> edits_of_events();  ///< meaning_rows.cpp
std::vector<RowEdit> edits_of_places();  ///< meaning_places.cpp

/// One edit; returns its name.
std::string edit_export(ChangedDatabase& database, Draw& draw);
std::string edit_trace(nlohmann::json& trace, Draw& draw);

/// A run over the job of this seed. The inputs, and a list of the edits, lie in `directory` before it begins.
hostile::Trial explain_edited_job(const std::vector<Job>& jobs, std::uint64_t seed,
                                  const std::filesystem::path& directory);

}  // namespace nsys_explain::meaning
