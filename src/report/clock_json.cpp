#include "report/clock_json.hpp"

#include "nsys_explain/model/names.hpp"

namespace nsys_explain::report {

namespace {

Json bend(const ClockBend& bend) {
  return {{"at_ns", bend.at_ns}, {"correction_ns", bend.correction_ns}};
}

Json session_clock(const SessionClock& session) {
  return {{"path", session.path},
          {"host", session.host},
          {"method", clock_method_name(session.method)},
          {"offset_ns", session.offset_ns},
          {"drift_ppb", session.drift_ppb},
          {"drift_uncertainty_ppb", nullable(session.drift_uncertainty_ppb)},
          {"uncertainty_ns", nullable(session.uncertainty_ns)},
          {"component", session.component},
          {"bends", array_of(session.bends, bend)}};
}

Json residual_bin(const ResidualBin& bin) {
  return {{"from_ns", bin.from_ns}, {"to_ns", bin.to_ns}, {"samples", bin.samples}};
}

Json class_residual(const ClassResidual& row) {
  return {{"operation", operation_name(row.operation)},
          {"scope", row.one_host ? "one_host" : "several_hosts"},
          {"from_bytes", row.from_bytes < 0 ? Json(nullptr) : Json(row.from_bytes)},
          {"decides", row.decides},
          {"samples", row.samples},
          {"held_out_p50_ns", row.p50_ns},
          {"held_out_p90_ns", row.p90_ns},
          {"held_out_max_ns", row.max_ns}};
}

}  // namespace

Json clock_json(const ClockReport& clock) {
  const ClockResidual& residual = clock.residual;
  return {{"sessions", array_of(clock.sessions, session_clock)},
          {"pivot_ns", clock.pivot_ns},
          {"residual",
           {{"held_out_p50_ns", nullable(residual.held_out_p50_ns)},
            {"held_out_p90_ns", nullable(residual.held_out_p90_ns)},
            {"held_out_max_ns", nullable(residual.held_out_max_ns)},
            {"samples", residual.samples},
            {"histogram", array_of(residual.histogram, residual_bin)},
            {"by_class", array_of(residual.by_class, class_residual)}}},
          {"violations", clock.violations},
          {"smallest_skew_ns", nullable(clock.smallest_skew_ns)}};
}

}  // namespace nsys_explain::report
