#pragma once

#include "nsys_explain/ingest/discovery.hpp"
#include "pipeline/run/job.hpp"

/// Files that a run writes outside of its results, where an option says: --prometheus, --perfetto.
namespace nsys_explain::pipeline {

/// Before anything is read. Throws std::runtime_error (problem, why it matters, what to do) where such a file would
/// replace what the user did not allow to replace, a file of an option, a result of this run, or the other such file.
/// What an earlier run wrote is replaced where its beginning says so.
void check_outside_files(const JobSpecification& job);

/// Throws so where such a file is a trace that was found, under whatever name.
void require_outside_of_traces(const JobSpecification& job, const ingest::MergedDiscovery& found);

}  // namespace nsys_explain::pipeline
