#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "simulation/exports.hpp"
#include "simulation/job_plan.hpp"
#include "simulation/simulated_job.hpp"

namespace nsys_explain::synth::test {

/// A small job that still has every kind of event.
inline JobPlan small_plan() {
  JobPlan plan;
  plan.layout = {2, 2, 1, 1, 0};
  plan.workload.steps = 4;
  plan.workload.layers = 2;
  plan.workload.reduce_every = 2;
  return plan;
}

/// A directory of this test alone, which is yet to be made and is removed afterwards.
class ExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "synth_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = std::filesystem::path(pattern) / "job";
  }
  void TearDown() override { std::filesystem::remove_all(directory_.parent_path()); }

  /// Simulates, writes, and returns the paths of the exports.
  std::vector<std::string> write(const JobPlan& plan) {
    job_ = simulate(plan);
    std::vector<std::string> paths;
    for (const WrittenExport& file : write_exports(job_, complete_plan(plan), directory_.string()))
      paths.push_back(file.path);
    return paths;
  }

  std::filesystem::path directory_;
  SimulatedJob job_;
};

/// Rows as text; NULL is "NULL", a blob its hexadecimal form with "x" in front.
using Rows = std::vector<std::vector<std::string>>;

inline Rows query(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  if (sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr) != SQLITE_OK)
    throw std::runtime_error("cannot open " + path);
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
    const std::string message = sqlite3_errmsg(database);
    sqlite3_close(database);
    throw std::runtime_error(sql + ": " + message);
  }
  Rows rows;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    std::vector<std::string> row;
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      if (sqlite3_column_type(statement, i) == SQLITE_NULL) {
        row.emplace_back("NULL");
      } else if (sqlite3_column_type(statement, i) == SQLITE_BLOB) {
        const auto* bytes = static_cast<const unsigned char*>(sqlite3_column_blob(statement, i));
        std::string text = "x";
        for (int b = 0; b < sqlite3_column_bytes(statement, i); ++b) {
          static constexpr char digits[] = "0123456789abcdef";
          text += digits[bytes[b] >> 4];
          text += digits[bytes[b] & 15];
        }
        row.push_back(text);
      } else {
        row.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(statement, i)));
      }
    }
    rows.push_back(std::move(row));
  }
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return rows;
}

inline std::int64_t number(const std::string& path, const std::string& sql) {
  return std::stoll(query(path, sql).at(0).at(0));
}

inline std::vector<std::string> column(const Rows& rows, std::size_t index) {
  std::vector<std::string> values;
  for (const auto& row : rows) values.push_back(row.at(index));
  return values;
}

inline std::vector<std::string> table_list(const std::string& path) {
  return column(query(path, "SELECT name FROM sqlite_master WHERE type='table' ORDER BY name"), 0);
}

inline std::vector<std::string> column_list(const std::string& path, const std::string& table) {
  return column(query(path, "SELECT name FROM pragma_table_info('" + table + "')"), 0);
}

}  // namespace nsys_explain::synth::test
