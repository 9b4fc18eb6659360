#include "simulation/places.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "simulation/random.hpp"

namespace nsys_explain::synth {
namespace {

std::string uuid_text(Draw draw) {
  const std::uint64_t high = draw.bits(), low = draw.bits();
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xFFFF, high & 0xFFFF, low >> 48,
                     low & 0xFFFFFFFFFFFF);
}

/// Unless the file name is the hint, it holds letters only, in the order of the sessions: "trace_aab.sqlite".
std::string letters(std::uint32_t number) {
  std::string text(3, 'a');
  for (std::size_t i = text.size(); i-- > 0; number /= 26) text[i] = static_cast<char>('a' + number % 26);
  return text;
}

std::string file_name(const JobPlan& plan, std::uint32_t session) {
  if (plan.export_style.rank_hint != RankHint::file_name) return fmt::format("trace_{}.sqlite", letters(session));
  const bool per_node = plan.export_style.files == FileLayout::per_node;
  return per_node ? fmt::format("node_{:03}.sqlite", session) : fmt::format("rank_{:05}.sqlite", session);
}

TrueSession make_session(const JobPlan& plan, std::uint32_t index, std::int32_t node) {
  TrueSession session;
  session.file_name = file_name(plan, index);
  session.node = node;
  Draw draw(plan.seed, Purpose::session, index);
  session.utc_offset_ns = draw.integer(-plan.clocks.utc_offset_max_ns, plan.clocks.utc_offset_max_ns);
  // The first session starts at true time 0.
  session.start_ns = index == 0 ? 0 : draw.integer(0, plan.clocks.session_start_spread_ns);
  Draw oscillator(plan.seed, Purpose::node, static_cast<std::uint64_t>(node));
  const double drift_max_ppb = plan.clocks.drift_max_ppm * 1000;
  session.drift_ppb = static_cast<std::int64_t>(oscillator.uniform(-drift_max_ppb, drift_max_ppb));
  if (node + 1 == plan.layout.nodes) {
    session.change_at_ns = plan.clocks.change_at_ns;
    session.step_ns = plan.clocks.step_ns;
    session.slew_ppb = static_cast<std::int64_t>(plan.clocks.slew_ppm * 1000);
    session.slew_for_ns = plan.clocks.slew_for_ns;
  }
  const Nanoseconds boot_age_ns = oscillator.integer(1'000'000'000'000, 900'000'000'000'000);
  session.system_clock_ns = boot_age_ns + session.start_ns + session.start_ns * session.drift_ppb / 1'000'000'000;
  return session;
}

}  // namespace

void make_places(const JobPlan& plan, SimulatedJob& job) {
  const Layout& layout = plan.layout;
  const ExportStyle& style = plan.export_style;
  const bool per_node = style.files == FileLayout::per_node;
  for (std::int32_t rank = 0; rank < layout.ranks(); ++rank) {
    RankPlace place;
    place.node = rank / layout.gpus_per_node;
    place.local_rank = rank % layout.gpus_per_node;
    place.session = static_cast<std::uint32_t>(per_node ? place.node : rank);
    // Every node gives the same process ids, as containers do: they are no key across files.
    place.process_id = 4242 + (style.single_process_per_node ? 0 : 7 * place.local_rank);
    place.device_id = style.isolated_devices ? 0 : place.local_rank;
    place.gpu_uuid = uuid_text(Draw(plan.seed, Purpose::identity, 2, static_cast<std::uint64_t>(rank)));
    if (place.session == job.sessions.size()) job.sessions.push_back(make_session(plan, place.session, place.node));
    job.sessions[place.session].ranks.push_back(rank);
    job.places.push_back(std::move(place));
  }
}

Nanoseconds trace_time_ns(const TrueSession& session, Nanoseconds true_ns) {
  const Nanoseconds elapsed = true_ns - session.start_ns;
  const Nanoseconds since_change = true_ns - session.change_at_ns;
  const Nanoseconds slewed = std::clamp<Nanoseconds>(since_change, 0, session.slew_for_ns);
  return elapsed + elapsed * session.drift_ppb / 1'000'000'000 + (since_change > 0 ? session.step_ns : 0) +
         slewed * session.slew_ppb / 1'000'000'000;
}

Nanoseconds reported_utc_start_ns(const TrueSession& session) {
  return true_epoch_utc_ns + session.start_ns + session.utc_offset_ns;
}

RelativeClock relative_clock(const TrueSession& session, const TrueSession& reference, Nanoseconds pivot_true_ns) {
  const auto utc_at = [&](const TrueSession& s) { return reported_utc_start_ns(s) + trace_time_ns(s, pivot_true_ns); };
  RelativeClock clock;
  clock.offset_ns = static_cast<double>(utc_at(session) - utc_at(reference));
  // u - offset runs at (1 + d) while job time, the reference's u, runs at (1 + d_reference).
  const double rate = 1 + static_cast<double>(session.drift_ppb) * 1e-9;
  const double reference_rate = 1 + static_cast<double>(reference.drift_ppb) * 1e-9;
  clock.drift_ppb = (1 - reference_rate / rate) * 1e9;
  return clock;
}

std::string node_name(std::int32_t node) {
  return fmt::format("node{:03}", node);
}

}  // namespace nsys_explain::synth
