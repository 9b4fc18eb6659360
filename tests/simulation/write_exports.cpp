#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#include "simulation/export_context.hpp"
#include "simulation/exports.hpp"
#include "simulation/random.hpp"

namespace nsys_explain::synth {
namespace {

bool is_captured(const JobPlan& plan, std::int32_t rank) {
  const std::vector<std::int32_t>& missing = plan.capture.missing_ranks;
  return std::find(missing.begin(), missing.end(), rank) == missing.end();
}

RankIdentity identity_of(const SimulatedJob& job, const JobPlan& plan, std::int32_t rank) {
  const RankPlace& place = job.places[static_cast<std::size_t>(rank)];
  const bool shared_process = plan.export_style.single_process_per_node;
  RankIdentity identity;
  identity.rank = rank;
  identity.global_pid = global_vm_id | (static_cast<std::int64_t>(place.process_id) << 24);
  const std::int64_t main_thread = place.process_id + (shared_process ? place.local_rank : 0);
  identity.threads = {identity.global_pid | main_thread, identity.global_pid | (main_thread + 50)};
  identity.device = place.device_id;
  // CUPTI numbers contexts within a process.
  identity.context = shared_process ? 1 + place.local_rank : 1;
  identity.first_correlation = 100 + (shared_process ? place.local_rank : 0);
  identity.correlation_stride = shared_process ? plan.layout.gpus_per_node : 1;
  identity.window = capture_window(job, plan, rank);
  return identity;
}

WrittenExport write_session(const SimulatedJob& job, const JobPlan& plan, const TrueSession& session,
                            const std::vector<std::int32_t>& ranks, const std::filesystem::path& path) {
  WrittenExport written;
  written.path = path.string();
  std::filesystem::remove(path);
  {
    Database database(written.path);
    ExportContext context{job,
                          plan,
                          session,
                          nsys_release(plan.export_style.nsys_version),
                          version_number(plan.export_style.nccl_version),
                          kernel_catalogue(plan.export_style.nccl_version, has_trees(plan.network.ends)),
                          {},
                          database,
                          {}};
    for (const std::int32_t rank : ranks) context.ranks.push_back(identity_of(job, plan, rank));
    written.kernels = write_activity_rows(context);
    if (plan.capture.nvtx) write_nvtx_rows(context);
    if (plan.export_style.gpu_metrics) write_gpu_metric_rows(context);
    if (plan.export_style.nic_metrics) write_nic_metric_rows(context);
    if (plan.export_style.switch_metrics) write_switch_metric_rows(context);
    write_session_facts(context);
    if (!plan.export_style.lazy)
      for (const std::string_view name : table_names(context.release.number)) context.table(name).create();
    database.finish();
  }
  written.bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  return written;
}

struct CapturedSession {
  const TrueSession* session = nullptr;
  std::vector<std::int32_t> ranks;
};

/// Files written at once, each with the events of its ranks in memory.
constexpr unsigned most_threads = 8;

/// Calls `work(i)` once for every i below `count`, on several threads. Throws what one of them threw first; what was
/// not begun by then is left out.
void for_each_at_once(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work_on = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t threads = std::min<std::size_t>(std::min(std::thread::hardware_concurrency(), most_threads), count);
  try {
    while (helpers.size() + 1 < threads) helpers.emplace_back(work_on);
  } catch (const std::system_error&) {
    // No more threads to be had: those that run do all the work.
  }
  work_on();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

CaptureWindow capture_window(const SimulatedJob& job, const JobPlan& plan, std::int32_t rank) {
  const Nanoseconds start = job.ranks[static_cast<std::size_t>(rank)].calls.front().start_ns;
  const double span = plan.capture.ragged_share * static_cast<double>(job.end_ns - start);
  if (span <= 0) return {0, job.end_ns};
  Draw draw(plan.seed, Purpose::capture, 1, static_cast<std::uint64_t>(rank));
  return {start + static_cast<Nanoseconds>(draw.uniform() * span),
          job.end_ns - static_cast<Nanoseconds>(draw.uniform() * span)};
}

std::vector<RankIdentity> ExportContext::rank_passes() const {
  std::vector<RankIdentity> passes;
  for (std::int32_t repeat = 0; repeat < plan.export_style.repeats; ++repeat) {
    for (RankIdentity identity : ranks) {
      identity.shift_ns = repeat * job.end_ns;
      identity.first_correlation +=
          repeat * identity.correlation_stride * static_cast<std::int64_t>(events(identity).calls.size());
      passes.push_back(identity);
    }
  }
  return passes;
}

std::vector<std::uint32_t> ExportContext::row_order(std::size_t rows, std::uint64_t salt) const {
  std::vector<std::uint32_t> order(rows);
  for (std::uint32_t i = 0; i < rows; ++i) order[i] = i;
  if (!plan.export_style.shuffled_rows) return order;
  Draw draw(plan.seed, Purpose::shuffle, salt, static_cast<std::uint64_t>(session.start_ns));
  for (std::size_t i = rows; i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(draw.integer(0, static_cast<std::int64_t>(i) - 1))]);
  return order;
}

bool is_exported(const SimulatedJob& job, const JobPlan& plan, std::int32_t rank, std::uint32_t index) {
  if (!is_captured(plan, rank)) return false;
  const DeviceActivity& activity = job.ranks[static_cast<std::size_t>(rank)].activities[index];
  if (activity.graph_node != 0 && plan.workload.graph_mode == GraphMode::whole) return false;
  if (plan.capture.ragged_share > 0 && !capture_window(job, plan, rank).covers(activity.start_ns, activity.end_ns))
    return false;
  if (plan.capture.drop_share <= 0) return true;
  Draw draw(plan.seed, Purpose::capture, 2, static_cast<std::uint64_t>(rank), index);
  return draw.uniform() >= plan.capture.drop_share;
}

std::vector<WrittenExport> write_exports(const SimulatedJob& job, const JobPlan& plan, const std::string& directory,
                                         const std::function<void(const WrittenExport&)>& on_written) {
  std::filesystem::create_directories(directory);
  std::vector<CapturedSession> captured;
  for (const TrueSession& session : job.sessions) {
    CapturedSession one{&session, {}};
    for (const std::int32_t rank : session.ranks)
      if (is_captured(plan, rank)) one.ranks.push_back(rank);
    if (!one.ranks.empty()) captured.push_back(std::move(one));
  }
  std::vector<WrittenExport> written(captured.size());
  for_each_at_once(captured.size(), [&](std::size_t i) {
    const TrueSession& session = *captured[i].session;
    written[i] =
        write_session(job, plan, session, captured[i].ranks, std::filesystem::path(directory) / session.file_name);
    if (on_written) on_written(written[i]);
  });
  return written;
}

}  // namespace nsys_explain::synth
