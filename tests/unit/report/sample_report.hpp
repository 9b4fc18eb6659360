#pragma once

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::report {

/// A small job that uses every part of a report: four trace ranks on two hosts, of which rank 2 is late; one degraded
/// and one failed input. The numbers are made up but consistent.
JobReport small_report();

/// `count` trace ranks, sessions, inputs, communicators, warnings, findings and stragglers.
JobReport large_report(int count);

}  // namespace nsys_explain::report
