#include "pipeline/commands/show.hpp"

#include <charconv>
#include <limits>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "model/schema/job.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/own_process.hpp"
#include "report/report.hpp"
#include "report/text.hpp"
#include "store/store_reader.hpp"

namespace nsys_explain::pipeline {
namespace {

/// A question that the store cannot answer as it was put.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::int64_t number_in(const std::vector<std::string>& subject) {
  std::int64_t number = 0;
  const std::string& text = subject.size() > 1 ? subject[1] : std::string();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(fmt::format("'{}' is followed by no number, so it is unknown which one; say e.g. '{} 37'",
                                 subject[0], subject[0]));
  }
  return number;
}

class Show {
 public:
  Show(const ShowRequest& request, std::ostream& out)
      : request_(request),
        out_(out),
        store_(request.store_path),
        limit_(request.limit == 0 ? std::numeric_limits<std::size_t>::max() : request.limit) {}

  void run() {
    const std::vector<std::string>& subject = request_.subject;
    if (subject.empty()) {
      contents();
    } else if (subject[0] == "rank") {
      rank(number_in(subject));
    } else if (subject[0] == "instance") {
      instance(number_in(subject));
    } else if (subject[0] == "collectives") {
      // What cost most first: nobody looks for the millionth cheap one.
      print(report::largest_rows(store_.read("collective_instances"), "caused_wait_ns", limit_));
    } else if (store_.has_table(subject[0])) {
      print(report::first_rows(store_.read(subject[0]), limit_));
      note_rest(store_.row_count(subject[0]));
    } else {
      throw UsageError(fmt::format("the store has no table '{}', so there is nothing to show; its tables are: {}",
                                   subject[0], fmt::join(store_.table_names(), ", ")));
    }
  }

 private:
  void print(Table table) {
    if (request_.time_unit) table = report::in_time_unit(std::move(table), *request_.time_unit);
    switch (request_.format) {
      case ShowFormat::json:
        out_ << report::table_json(table);
        break;
      case ShowFormat::csv:
        out_ << report::csv_header(table.schema) << report::csv_rows(table);
        break;
      case ShowFormat::text:
        out_ << report::table_text(table, {request_.colour, 60});
        break;
    }
  }

  void heading(const std::string& text) {
    if (request_.format == ShowFormat::text) out_ << text << '\n';
  }

  void note_rest(std::int64_t rows) {
    if (request_.format != ShowFormat::text || static_cast<std::size_t>(rows) <= limit_) return;
    out_ << fmt::format("... and {} more; --limit 0 shows all\n", static_cast<std::size_t>(rows) - limit_);
  }

  void contents() {
    Table tables = make_table({"tables",
                               "What the store holds",
                               {{"table", ColumnKind::text, "", ""},
                                {"rows", ColumnKind::integer, "", ""},
                                {"description", ColumnKind::text, "", ""}}});
    RowWriter rows(tables);
    for (const std::string& name : store_.table_names()) {
      if (store_.row_count(name) == 0) continue;  // nothing to show; --print-schema lists every table
      rows << name << store_.row_count(name) << store_.schema(name).description;
    }
    print(tables);
  }

  /// Whether it is a trace rank, or a process without GPU work.
  bool is_known(std::int64_t trace_rank) {
    for (const char* table : {"trace_ranks", "host_processes"}) {
      if (store_.has_table(table) && report::rows_where(store_.read(table), "trace_rank", trace_rank).row_count() > 0)
        return true;
    }
    return false;
  }

  bool speaks_of_ranks(const std::string& table) {
    const TableSchema schema = store_.schema(table);
    return !schema.columns.empty() && schema.columns.front().name == "trace_rank";
  }

  /// What a row or two say of it; of longer tables how many rows they have, or, where one of them is named, its rows.
  void rank(std::int64_t trace_rank) {
    if (!is_known(trace_rank)) {
      throw UsageError(fmt::format("the store has no trace rank {}; `show {} trace_ranks` lists them", trace_rank,
                                   request_.store_path));
    }
    const std::string only = request_.subject.size() > 2           ? request_.subject[2]
                             : request_.format != ShowFormat::text ? "ranks"
                                                                   : "";
    if (!only.empty()) {
      if (!store_.has_table(only) || !speaks_of_ranks(only))
        throw UsageError(fmt::format("the store has no table '{}' of trace ranks, so there is nothing to show", only));
      const Table rows = report::rows_where(store_.read(only), "trace_rank", trace_rank);
      print(report::first_rows(rows, limit_));
      note_rest(static_cast<std::int64_t>(rows.row_count()));
      return;
    }
    constexpr std::size_t few_rows = 2;
    std::vector<std::string> longer;
    for (const std::string& name : store_.table_names()) {
      // Its arrivals are as many as the job's collectives: `collectives` and `instance` show them.
      if (name == "collective_arrivals" || name == "collective_instances" || !speaks_of_ranks(name)) continue;
      const Table rows = report::rows_where(store_.read(name), "trace_rank", trace_rank);
      if (rows.row_count() == 0) continue;
      if (rows.row_count() > few_rows) {
        longer.push_back(fmt::format("{} ({})", name, rows.row_count()));
        continue;
      }
      heading(fmt::format("\n{}: {}", name, store_.schema(name).description));
      print(rows);
    }
    if (!longer.empty())
      heading(fmt::format("\nMore rows (show {} rank {} TABLE):\n{}", request_.store_path, trace_rank,
                          report::wrap(fmt::format("{}", fmt::join(longer, ", ")), "  ", "  ", 100)));
  }

  void instance(std::int64_t number) {
    // Row and number of an instance are the same by construction.
    const Table found = store_.read("collective_instances", number, 1);
    if (number < 0 || found.row_count() == 0) {
      throw UsageError(fmt::format("the store has no instance {}; it has {}, counted from 0", number,
                                   store_.row_count("collective_instances")));
    }
    if (request_.format == ShowFormat::text) {
      print(found);
      heading("");
    }
    print(arrivals_of(number));
  }

  /// Arrivals are in the order of their instances: a binary search reads a few rows instead of all.
  Table arrivals_of(std::int64_t number) {
    const auto first_not_below = [&](std::int64_t wanted) {
      std::int64_t low = 0, high = store_.row_count("collective_arrivals");
      while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        const Table row = store_.read("collective_arrivals", middle, 1);
        if (column(row, schema::collective_arrivals.instance).front() < wanted) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    };
    const std::int64_t first = first_not_below(number);
    return store_.read("collective_arrivals", first, first_not_below(number + 1) - first);
  }

  const ShowRequest& request_;
  std::ostream& out_;
  store::StoreReader store_;
  std::size_t limit_;
};

}  // namespace

int show(const ShowRequest& request, std::ostream& out, std::ostream& problems) {
  try {
    Show(request, out).run();
    return all_analysed;
  } catch (const UsageError& error) {
    problems << "nsys-explain-mpi show: " << error.what() << '\n';
    return wrong_usage;
  } catch (const std::exception& error) {
    problems << "nsys-explain-mpi show: " << sentence_of(error) << '\n';
    return nothing_analysed;
  }
}

}  // namespace nsys_explain::pipeline
