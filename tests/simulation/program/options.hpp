#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "simulation/job_plan.hpp"
#include "simulation/keys.hpp"

namespace nsys_explain::synth {

enum class Truth { full, summary, none };

/// What nsys-explain-synth is told.
struct Arguments {
  JobPlan plan;
  std::string directory;
  std::vector<std::string> faults;
  std::string twin;  ///< the fault that the job beside it lacks, as given; "all"; empty: no such job
  Truth truth = Truth::full;
  bool force = false;
  bool records = false;
  double gradient_mib = 32, activation_mib = 16;
};

/// An option whose value is a list of keys.
struct KeyedOption {
  Keys keys;
  std::vector<std::string> texts;  ///< as given
  std::string meaning;
};

/// The options of nsys-explain-synth, which set `arguments`; both must outlive the parsing.
class Options {
 public:
  Options(CLI::App& app, Arguments& arguments);

  /// The plan that was asked for, complete. Throws PlanError.
  JobPlan plan();

 private:
  void add_output_options(CLI::App& app);
  void add_job_options(CLI::App& app);
  void add_keyed_options(CLI::App& app);
  Keys network_keys();
  Keys ends_keys();
  Keys noise_keys();
  Keys clock_keys();
  Keys capture_keys();
  Keys export_keys();
  Keys metrics_keys();

  Arguments& arguments_;
  std::vector<std::pair<std::string, KeyedOption>> keyed_;
};

}  // namespace nsys_explain::synth
