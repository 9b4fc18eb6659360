#include "report/json_links.hpp"

namespace nsys_explain::report {

Json nvlink_json(const NvlinkReport& nvlink) {
  Json gpus = Json::array();
  for (const NvlinkUse& use : nvlink.gpus) {
    gpus.push_back({{"trace_rank", use.trace_rank},
                    {"metric", use.metric},
                    {"mean_during_percent", nullable(use.mean_during_percent)},
                    {"mean_outside_percent", nullable(use.mean_outside_percent)},
                    {"correlation", nullable(use.correlation)},
                    {"lag_ns", use.lag_ns},
                    {"p_value", nullable(use.p_value)},
                    {"estimated_during_gbs", nullable(use.estimated_during_gbs)},
                    {"samples", use.samples},
                    {"artefacts", use.artefacts}});
  }
  Json by_operation = Json::array();
  for (const NvlinkOperationUse& use : nvlink.by_operation) {
    by_operation.push_back({{"metric", use.metric},
                            {"operation", use.operation},
                            {"gpus", use.gpus},
                            {"mean_during_percent", use.mean_during_percent}});
  }
  return {{"available", nvlink.available},
          {"message", nvlink.message},
          {"gpus", std::move(gpus)},
          {"by_operation", std::move(by_operation)}};
}

Json network_json(const std::vector<NetworkUse>& network) {
  Json array = Json::array();
  for (const NetworkUse& use : network) {
    array.push_back({{"source", use.source},
                     {"metric", use.metric},
                     {"unit", use.unit},
                     {"ports", use.ports},
                     {"mean_during", nullable(use.mean_during)},
                     {"mean_outside", nullable(use.mean_outside)},
                     {"correlated_ports", use.correlated_ports}});
  }
  return array;
}

}  // namespace nsys_explain::report
