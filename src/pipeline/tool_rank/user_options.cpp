#include "pipeline/tool_rank/user_options.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingest/side_files.hpp"
#include "model/hash.hpp"

namespace nsys_explain::pipeline {
namespace {

std::string text_of_file(const std::string& path, std::string_view what) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error(fmt::format("cannot read the {} {}; check the path", what, path));
  return std::move(text).str();
}

analysis::WindowRequest read_window(const JobSpecification& job) {
  analysis::WindowRequest window;
  if (!job.filter_time.empty()) window.time = analysis::parse_filter_time(job.filter_time);
  if (!job.filter_nvtx.empty()) window.range = analysis::parse_filter_nvtx(job.filter_nvtx);
  if (!job.steps.empty()) window.steps = analysis::parse_steps(job.steps);
  window.warmup_steps = job.warmup_steps;
  window.steady = !window.any() && !job.whole_run;
  return window;
}

std::string window_text(const JobSpecification& job) {
  std::string text;
  const auto add = [&](std::string_view option, std::string_view value) {
    const std::string_view quote = value.find(' ') == std::string_view::npos ? "" : "'";
    if (!value.empty()) text += fmt::format("{}{} {}{}{}", text.empty() ? "" : " ", option, quote, value, quote);
  };
  add("--filter-time", job.filter_time);
  add("--filter-nvtx", job.filter_nvtx);
  add("--steps", job.steps);
  if (job.warmup_steps > 0) text += fmt::format("{}--skip-warmup={}", text.empty() ? "" : " ", job.warmup_steps);
  return text;
}

/// What `parse` makes of a file; problems name the option and the file. Default where no file was given. Its content
/// goes into `seen`.
template <class Parse>
auto read_evidence(std::string_view option, const std::string& path, std::uint64_t& seen, const Parse& parse) {
  using Result = decltype(parse(std::string_view()));
  if (path.empty()) return Result();
  const std::string text = text_of_file(path, fmt::format("file of {}", option));
  seen = fnv1a(text, fnv1a(option, seen));
  try {
    return parse(std::string_view(text));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("{} {}: {}", option, path, error.what()));
  }
}

std::vector<Regex> read_communication_kernels(const JobSpecification& job, std::uint64_t& seen) {
  std::vector<Regex> patterns;
  for (const std::string& pattern : job.communication_kernels) {
    seen = fnv1a(pattern, fnv1a("--communication-kernels", seen));
    if (pattern.empty()) {
      throw std::runtime_error(
          "--communication-kernels '': it matches every name, so nothing would be compute; give a part of the kernel's name");
    }
    try {
      patterns.emplace_back(pattern);
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format(
          "--communication-kernels '{}': it is no regular expression, so no kernel can be compared with it ({}); correct it",
          pattern, error.what()));
    }
  }
  return patterns;
}

}  // namespace

UserOptions read_user_options(const JobSpecification& job) {
  UserOptions options;
  std::uint64_t& seen = options.reading_digest;
  seen = fnv1a(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", job.gpu_trace, job.rank_regex, job.filter_time,
                           job.filter_nvtx, job.steps, job.warmup_steps, job.whole_run, job.nvml_utc_offset_hours));
  options.ranks = read_evidence("--rank-map", job.rank_map_path, seen,
                                [](std::string_view text) { return ingest::parse_rank_map(std::string(text)); });
  ingest::check_rank_regex(job.rank_regex);
  options.ranks.regex = job.rank_regex;
  options.analysis.gpu_trace = job.gpu_trace;
  options.analysis.window = read_window(job);
  options.window_text = window_text(job);
  if (!job.topology_path.empty()) options.racks = parse_topology(text_of_file(job.topology_path, "topology file"));
  options.analysis.phase_rules = read_evidence("--phase-map", job.phase_map_path, seen, [](std::string_view text) {
    return analysis::parse_phase_map(ingest::phase_map_lines(text));
  });
  options.communication_kernels = read_communication_kernels(job, seen);
  analysis::RooflineEvidence& roofline = options.analysis.roofline;
  roofline.ncu = read_evidence("--ncu", job.ncu_path, seen, analysis::parse_ncu_csv);
  roofline.gemms = read_evidence("--cublas-log", job.cublas_log_path, seen, analysis::parse_cublas_log);
  roofline.weights = read_evidence("--weights", job.weights_path, seen, analysis::parse_weights);
  roofline.peaks = read_evidence("--gpu-peaks", job.gpu_peaks_path, seen, analysis::parse_gpu_peaks);
  const auto offset_s = static_cast<std::int64_t>(job.nvml_utc_offset_hours * 3600);
  options.analysis.gpu_samples = read_evidence("--nvml", job.nvml_path, seen, [&](std::string_view text) {
    return analysis::parse_gpu_samples(text, offset_s);
  });
  std::uint64_t unseen = 0;  // these change nothing of what reading a trace gives
  options.requests = read_evidence("--requests", job.requests_path, unseen, [](std::string_view text) {
    return analysis::parse_requests(ingest::request_rows(text));
  });
  options.engine_layers = read_evidence("--trt-profile", job.trt_profile_path, unseen, ingest::engine_layers);
  options.allocator_tables = read_evidence("--memory-snapshot", job.memory_snapshot_path, unseen,
                                           [](std::string_view text) { return ingest::allocator_tables(text); });
  for (const std::string& path : job.nccl_log_paths)
    analysis::add_nccl_log(text_of_file(path, "file of --nccl-log"), options.nccl_log);
  if (!job.nccl_log_paths.empty() && options.nccl_log.members.empty() && options.nccl_log.connections.empty() &&
      options.nccl_log.choices.empty()) {
    throw std::runtime_error(fmt::format(
        "--nccl-log {}: no line of NCCL INFO says anything of communicators, so nothing is known of what connects them; log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,P2P,SHM,NET,TUNING",
        fmt::join(job.nccl_log_paths, " ")));
  }
  options.inspector_directory = job.inspector_directory;
  if (!job.inspector_directory.empty())
    seen = fnv1a(ingest::list_inspector_logs(job.inspector_directory), fnv1a("--inspector", seen));
  if (!job.link_peaks_path.empty()) {
    options.link_peaks = analysis::parse_link_peaks(text_of_file(job.link_peaks_path, "link peaks"));
  }
  return options;
}

std::vector<std::string*> paths_to_read(JobSpecification& job) {
  std::vector<std::string*> paths{&job.category_map_path, &job.rank_map_path,        &job.topology_path,
                                  &job.link_peaks_path,   &job.phase_map_path,       &job.ncu_path,
                                  &job.cublas_log_path,   &job.weights_path,         &job.gpu_peaks_path,
                                  &job.nvml_path,         &job.inspector_directory,  &job.requests_path,
                                  &job.trt_profile_path,  &job.memory_snapshot_path, &job.cache_directory};
  for (std::string& path : job.nccl_log_paths) paths.push_back(&path);
  return paths;
}

std::vector<Table> side_file_tables(const UserOptions& options) {
  std::vector<Table> tables;
  const auto add = [&](std::vector<Table> of_file) {
    const auto has_rows = [](const Table& table) { return table.row_count() > 0; };
    if (std::none_of(of_file.begin(), of_file.end(), has_rows)) return;
    std::move(of_file.begin(), of_file.end(), std::back_inserter(tables));
  };
  add(analysis::request_tables(options.requests));
  add(analysis::nccl_log_tables(options.nccl_log));
  add({options.engine_layers});
  add(options.allocator_tables);
  return tables;
}

}  // namespace nsys_explain::pipeline
