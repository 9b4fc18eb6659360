#include "report/absent_sections.hpp"

#include <array>

#include <fmt/format.h>

#include "report/markdown_parts.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

struct Section {
  std::string_view title;
  std::string_view reason;     ///< the only one why it can be missing
  bool of_trace_ranks = true;  ///< it is about GPU work, which a trace rank has
};

/// Sections that say themselves why they are empty are not here.
constexpr std::array sections{
    Section{"Findings", "nothing is above the size from which it is worth a line"},
    Section{"Late trace ranks", "no trace rank has significant lateness of its own"},
    Section{"Where the time of each trace rank went", "no trace rank has GPU activity"},
    Section{"Phases of the program", "no NVTX range is a phase (capture with -t nvtx; name your own by --phase-map)"},
    Section{"Who waits for whom", "no collective was matched between trace ranks"},
    Section{"Collectives by operation", "no collective was matched between trace ranks"},
    Section{"Communicators", "there are no communication kernels that could have one"},
    Section{"Idle GPU time by cause", "no GPU was idle between its activities"},
    Section{"Top kernels", "no kernel was recorded (-t cuda; in CUDA graphs: --cuda-graph-trace=node)"},
    Section{"Same kernels on different GPUs", "no kernel ran often enough on several trace ranks"},
    Section{"GPU time by category", "no GPU activity was recorded"},
    Section{"CUDA calls of the host", "no CUDA call was recorded (-t cuda)", false},
    Section{"Expert rules", "none is broken"},
    Section{"Copies and sets", "none was recorded (-t cuda)"},
    Section{"Clock and matching quality", "one session has one clock, and no collective was matched"},
    Section{"NVLink during NCCL", "no NVLink counters were recorded (--gpu-metrics-devices)", false},
    Section{"Network during NCCL", "no counters of NICs or switches were recorded (--nic-metrics)", false},
    Section{"What it ran on", "the exports tell nothing about it", false},
    Section{"Warnings", "there is none", false}};

}  // namespace

std::string absent_sections(const JobReport& report, std::string_view markdown) {
  std::string list;
  for (const Section& section : sections) {
    if (markdown.find(fmt::format("\n## {}\n", section.title)) != std::string_view::npos) continue;
    const bool has_no_rank = section.of_trace_ranks && report.trace_ranks.empty();
    list += wrap(fmt::format("{}: {}", section.title,
                             has_no_rank ? "no input holds GPU activity, so there is no trace rank" : section.reason),
                 "- ", "  ");
  }
  if (list.empty()) return list;
  return heading("Sections left out", "What this report could have held, and why it does not.") + list;
}

}  // namespace nsys_explain::report
