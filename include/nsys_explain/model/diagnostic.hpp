#pragma once

#include <cstdint>
#include <string>

namespace nsys_explain {

/// How much a data problem matters. The names appear in report.json (`warnings[].severity`).
enum class Severity : std::uint8_t { info, data_loss, error };

/// Where a warning comes from: recorded in the trace, or found by our own analysis.
enum class WarningSource : std::uint8_t { trace, analysis };

/// One kind of data problem with the number of times it was met. The message says what, why it matters and what to do.
struct Warning {
  Severity severity = Severity::info;
  WarningSource source = WarningSource::analysis;
  std::int64_t count = 1;
  std::string message;

  friend bool operator==(const Warning&, const Warning&) = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(severity, source, count, message);
  }
};

/// Fate of one input file. `degraded`: analysed, but something it should hold is missing; the message says what.
enum class InputStatus : std::uint8_t { ok, degraded, failed };

/// One input as report.json lists it. A trace that was never captured is a warning, not an input.
struct InputReport {
  std::string path;
  InputStatus status = InputStatus::ok;
  std::string message;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(path, status, message);
  }
};

}  // namespace nsys_explain
