#pragma once

#include <string>
#include <vector>

#include "collectives/extraction.hpp"
#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::pipeline {

/// What the Inspector's log of one process left besides keys.
struct InspectorFindings {
  std::vector<Table> tables;  ///< inspector_keys, where there is a log
  std::vector<Warning> warnings;
};

/// Gives the arrivals of a process the keys that its log in `directory` holds for them, and adds the memberships that
/// it tells. Processes with several GPUs are left alone: a log does not say which of them ran what.
InspectorFindings take_inspector_keys(const std::string& directory, const Trace& trace, const ProcessTrace& process,
                                      std::vector<collectives::DeviceArrivals>& devices,
                                      std::vector<collectives::CommunicatorMembership>& memberships);

}  // namespace nsys_explain::pipeline
