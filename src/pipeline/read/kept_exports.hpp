#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "ingest/export_report.hpp"
#include "ingest/staging.hpp"

namespace nsys_explain::pipeline {

/// The export of an input that is none itself. Its directory goes with it.
struct MadeExport {
  ingest::ScratchDirectory place;
  ingest::ExportedInput made;
};

/// Exports that this tool rank has made, for the second look at an input: to make one takes longer than to read it.
/// May be used by several threads, for an input by one at a time.
class KeptExports {
 public:
  /// `nsys`: the program that exports reports.
  explicit KeptExports(std::string nsys) : nsys_(std::move(nsys)) {}

  /// The export that is kept, else a new one. A new one is kept where the disk has much room. Throws TraceError.
  std::shared_ptr<const MadeExport> of(const std::string& input);
  bool holds(const std::string& input) const;

 private:
  std::shared_ptr<const MadeExport> find(const std::string& input) const;

  const std::string nsys_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const MadeExport>> kept_;
};

}  // namespace nsys_explain::pipeline
