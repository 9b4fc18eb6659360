#include "clock/samples.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "clock/fixed_point.hpp"
#include "model/hash.hpp"
#include "nsys_explain/model/end_model.hpp"

namespace nsys_explain::clock {
namespace {

constexpr std::int64_t operations = static_cast<std::int64_t>(Operation::barrier) + 1;
constexpr std::int64_t sizes = 42;           // log2 of bytes + 1; 0: unknown
constexpr std::int64_t scopes = 4;           // one host or several, by tree or not
constexpr std::int64_t kernel_buckets = 16;  // kernel names that fall into one bucket share a scale: coarser, not wrong
constexpr std::int64_t class_codes = operations * sizes * scopes * kernel_buckets;

std::int64_t class_code(const ObservedInstance& instance, bool one_host) {
  const std::int64_t size =
      instance.message_bytes < 0
          ? 0
          : std::min<std::int64_t>(1 + std::bit_width(static_cast<std::uint64_t>(instance.message_bytes)), sizes - 1);
  const auto bucket = static_cast<std::int64_t>(splitmix(instance.kernel_name_hash) % kernel_buckets);
  return ((static_cast<std::int64_t>(instance.operation) * sizes + size) * scopes + (one_host ? 1 : 0) +
          (instance.by_tree ? 2 : 0)) *
             kernel_buckets +
         bucket;
}

/// Smallest message size of a class.
std::int64_t least_bytes(std::int64_t code) {
  const std::int64_t size = code / (kernel_buckets * scopes) % sizes;
  if (size <= 1) return size - 1;
  return std::int64_t{1} << (size - 2);
}

/// Sessions of one host by name; sessions without a host name are each on their own.
std::vector<std::int32_t> host_numbers(std::span<const Session> sessions) {
  std::map<std::string, std::int32_t> known;
  std::vector<std::int32_t> result;
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    const auto fresh = static_cast<std::int32_t>(s);
    result.push_back(sessions[s].host.empty() ? fresh : known.try_emplace(sessions[s].host, fresh).first->second);
  }
  return result;
}

std::uint64_t content_hash(std::span<const Sample> samples) {
  std::uint64_t hash = 0;
  for (const Sample& sample : samples) {
    hash = splitmix(hash ^ static_cast<std::uint64_t>(sample.session));
    hash = splitmix(hash ^ static_cast<std::uint64_t>(sample.exit_ns));
  }
  return hash;
}

/// Connected components over tool ranks: every rank joins what it knows; the smallest label travels until none changes.
class Components {
 public:
  explicit Components(std::size_t sessions) : parent_(sessions) {
    std::iota(parent_.begin(), parent_.end(), std::int32_t{0});
  }

  void join(const Samples& samples, const std::function<bool(const SampleGroup&)>& accept) {
    for (const SampleGroup& group : samples.groups) {
      if (!accept(group)) continue;
      const std::span<const Sample> members = samples.of(group);
      for (const Sample& member : members) join(members.front().session, member.session);
    }
  }

  std::vector<std::int32_t> agree(const Reduction& reduction) {
    std::vector<std::int64_t> agreed;
    while (true) {
      std::vector<std::int64_t> mine;
      mine.reserve(parent_.size());
      for (std::size_t s = 0; s < parent_.size(); ++s) mine.push_back(-find(static_cast<std::int32_t>(s)));
      std::vector<std::int64_t> smallest = reduction.maximum(mine);
      if (smallest == agreed) break;
      agreed = std::move(smallest);
      for (std::size_t s = 0; s < parent_.size(); ++s) {
        join(static_cast<std::int32_t>(s), static_cast<std::int32_t>(-agreed[s]));
      }
    }
    std::vector<std::int32_t> labels;
    labels.reserve(agreed.size());
    for (const std::int64_t label : agreed) labels.push_back(static_cast<std::int32_t>(-label));
    return labels;
  }

 private:
  std::int32_t find(std::int32_t s) {
    while (parent_[s] != s) s = parent_[s] = parent_[parent_[s]];
    return s;
  }
  void join(std::int32_t a, std::int32_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  std::vector<std::int32_t> parent_;
};

/// An instance's members as the estimator counts sessions and time, in an order that no tool rank changes.
class MemberOrder {
 public:
  MemberOrder(std::span<const std::int32_t> number, const LevelZero& level) : number_(number) {
    for (const SessionClock& clock : level.clocks) offset_ns_.push_back(clock.offset_ns);
  }

  std::span<const ObservedMember> operator()(std::span<const ObservedMember> members) {
    ordered_.clear();
    for (const ObservedMember& member : members) {
      const Nanoseconds offset_ns = offset_ns_[member.session];
      ordered_.push_back({member.enter_ns - offset_ns, member.exit_ns - offset_ns, number_[member.session]});
    }
    const auto before = [](const ObservedMember& a, const ObservedMember& b) {
      return std::tie(a.session, a.exit_ns, a.enter_ns) < std::tie(b.session, b.exit_ns, b.enter_ns);
    };
    if (!std::is_sorted(ordered_.begin(), ordered_.end(), before)) std::sort(ordered_.begin(), ordered_.end(), before);
    return ordered_;
  }

 private:
  std::span<const std::int32_t> number_;
  std::vector<Nanoseconds> offset_ns_;
  std::vector<ObservedMember> ordered_;
};

Samples own_samples(std::span<const Session> sessions, std::span<const std::int32_t> number, const LevelZero& level,
                    const Observations& observations) {
  const std::vector<std::int32_t> hosts = host_numbers(sessions);
  MemberOrder in_order(number, level);
  Samples result;
  result.groups.reserve(observations.instances.size());
  result.samples.reserve(observations.members.size());
  result.enter_ns.reserve(observations.members.size());
  for (const ObservedInstance& instance : observations.instances) {
    if (instance.operation == Operation::unknown || instance.members < 2) continue;
    const std::span<const ObservedMember> members(&observations.members[instance.first_member],
                                                  static_cast<std::size_t>(instance.members));
    const std::span<const ObservedMember> ordered = in_order(members);
    if (ordered.front().session == ordered.back().session) continue;
    const bool one_host = std::all_of(members.begin(), members.end(), [&](const ObservedMember& member) {
      return hosts[member.session] == hosts[members.front().session];
    });
    SampleGroup group;
    group.first = result.samples.size();
    group.count = instance.members;
    group.scale_class = static_cast<std::int32_t>(class_code(instance, one_host));
    group.communicator = instance.communicator;
    for (const ObservedMember& member : ordered) {
      Sample& sample = result.samples.emplace_back();
      sample.exit_ns = member.exit_ns;
      sample.session = member.session;
      result.enter_ns.push_back(member.enter_ns);
    }
    group.hash = content_hash(result.of(group));
    result.groups.push_back(group);
  }
  return result;
}

/// Replaces class codes by indices of the classes that occur on any tool rank.
void agree_on_classes(SampleSet& set, const Reduction& reduction) {
  std::vector<std::int64_t> counts(class_codes, 0);
  for (const SampleGroup& group : set.own.groups) counts[group.scale_class] += group.count;
  counts = reduction.sum(counts);
  std::vector<std::int32_t> index(class_codes, -1);
  for (std::int64_t code = 0; code < class_codes; ++code) {
    if (counts[code] == 0) continue;
    set.total_samples += counts[code];
    index[code] = static_cast<std::int32_t>(set.classes.size());
    ScaleClass scale_class;
    scale_class.operation = static_cast<Operation>(code / (sizes * scopes * kernel_buckets));
    scale_class.one_host = code / kernel_buckets % 2 == 1;
    scale_class.by_tree = code / kernel_buckets % scopes >= 2;
    scale_class.from_bytes = least_bytes(code);
    set.classes.push_back(scale_class);
  }
  for (SampleGroup& group : set.own.groups) group.scale_class = index[group.scale_class];
}

/// By how much somebody who was the last in `beyond` more of `instances` than one in its members is so beyond chance:
/// two standard errors of a share.
double beyond_chance(double instances, double beyond) {
  if (instances == 0) return 0;
  constexpr double standard_errors = 2, largest_deviation = 0.5;  // of one instance
  return std::max(0.0, std::abs(beyond) / instances - standard_errors * largest_deviation / std::sqrt(instances));
}

/// Sets how long the instances of each class take, and how often each session is the last to enter. That is who takes
/// least: nobody has to wait for others less.
void measure_least_durations(SampleSet& set, const Reduction& reduction) {
  namespace histogram = magnitude_histogram;
  const std::size_t classes = set.classes.size(), sessions = set.sessions;
  std::vector<std::int64_t> counts(classes * histogram::bins, 0);
  std::vector<std::int64_t> last(2 * sessions * classes, 0);  // instances, and thousandths of those beyond its share
  for (const SampleGroup& group : set.own.groups) {
    const auto k = static_cast<std::size_t>(group.scale_class);
    const std::span<const Sample> members = set.own.of(group);
    Nanoseconds least_ns = std::numeric_limits<Nanoseconds>::max();
    std::size_t shortest = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Nanoseconds duration_ns = members[i].exit_ns - set.own.enter_ns[group.first + i];
      if (duration_ns < least_ns) shortest = i;
      least_ns = std::min(least_ns, duration_ns);
    }
    ++counts[k * histogram::bins + histogram::bin_of(static_cast<double>(std::max<Nanoseconds>(0, least_ns)))];
    for (std::size_t i = 0; i < members.size(); ++i) {
      std::int64_t* const of_session = &last[2 * (static_cast<std::size_t>(members[i].session) * classes + k)];
      ++of_session[0];
      of_session[1] += (i == shortest ? 1000 : 0) - 1000 / group.count;
    }
  }
  counts = reduction.sum(counts);
  last = reduction.sum(last);
  for (std::size_t k = 0; k < classes; ++k) {
    ScaleClass& scale_class = set.classes[k];
    const std::span<const std::int64_t> of_class(&counts[k * histogram::bins], histogram::bins);
    scale_class.instances = std::accumulate(of_class.begin(), of_class.end(), std::int64_t{0});
    scale_class.least_ns = histogram::quantile(of_class, 0.5);
    scale_class.prior_ns = scale_class.scale_ns = EndModel::spread_ns(scale_class.least_ns);
  }
  for (std::size_t i = 0; i < sessions * classes; ++i)
    set.last_share.push_back(
        beyond_chance(static_cast<double>(last[2 * i]), static_cast<double>(last[2 * i + 1]) / 1e3));
}

/// A column of its own for each of the classes that take least, whose members leave most alike; the others share one.
void assign_bias_columns(SampleSet& set) {
  constexpr std::size_t most_columns = 6;
  std::vector<std::size_t> order(set.classes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return set.classes[a].least_ns < set.classes[b].least_ns; });
  for (std::size_t i = 0; i < order.size(); ++i) set.classes[order[i]].bias = std::min(i, most_columns - 1);
  set.biases = std::min(order.size(), most_columns);
  update_biases(set);
}

using SessionSet = std::vector<std::int32_t>;  ///< ascending

/// Sets of sessions of the communicators; equal ones are one.
void join_communicators(SampleSet& set, std::span<const std::int32_t> number, const Observations& observations) {
  std::vector<SessionSet> sets;
  for (const std::vector<std::int32_t>& sessions : observations.communicators) {
    SessionSet& members = sets.emplace_back();
    for (const std::int32_t session : sessions) members.push_back(number[session]);
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
  }
  std::map<SessionSet, std::int32_t> index;  // in their order, which no numbering of sessions or communicators changes
  for (const SessionSet& members : sets) {
    if (members.size() > 1) index.emplace(members, 0);
  }
  for (auto& [members, place] : index) {
    place = static_cast<std::int32_t>(set.communicators.end.size());
    set.communicators.session.insert(set.communicators.session.end(), members.begin(), members.end());
    set.communicators.end.push_back(set.communicators.session.size());
  }
  const auto place_of = [&](std::size_t i) { return sets[i].size() > 1 ? index.at(sets[i]) : -1; };
  std::vector<std::int32_t> place;
  for (std::size_t i = 0; i < sets.size(); ++i) place.push_back(place_of(i));
  for (SampleGroup& group : set.own.groups) {
    if (group.communicator >= 0) group.communicator = place[static_cast<std::size_t>(group.communicator)];
  }
}

/// From this many samples on, a part of the instances is enough to come close to the clocks: of those with the same
/// members and class in the same part of the run about this many; and all where there are few, because they may be all
/// that relates some sessions, or all that tells their drifts.
constexpr std::int64_t many_samples = 1 << 16;
constexpr std::uint64_t enough_instances = 16;
constexpr Nanoseconds parts_of_run = 8;
/// Instances of each kind are counted in several tables, in a bucket of each by another hash; kinds that share a bucket
/// in one will hardly do so in all (a count-min sketch: Cormode and Muthukrishnan 2005), so few pass for many.
constexpr std::uint64_t kind_buckets = 1 << 14;
constexpr std::size_t kind_tables = 4;

/// From the first exit to the last, on the clocks as they are.
Interval extent_of(const Samples& samples, const Reduction& reduction) {
  constexpr auto never = std::numeric_limits<Nanoseconds>::max();
  std::vector<std::int64_t> ends = {-never, -never};
  for (const Sample& sample : samples.samples) {
    ends[0] = std::max(ends[0], -sample.exit_ns);
    ends[1] = std::max(ends[1], sample.exit_ns);
  }
  ends = reduction.maximum(ends);
  return {-ends[0], ends[1]};
}

void choose_part(SampleSet& set, const Reduction& reduction) {
  if (set.total_samples <= many_samples) return;
  const Interval run = extent_of(set.own, reduction);
  const Nanoseconds part_ns = (run.end_ns - run.start_ns) / parts_of_run + 1;
  const auto bucket = [](std::uint64_t kind, std::size_t table) {
    return table * kind_buckets + splitmix(kind + table) % kind_buckets;
  };
  std::vector<std::uint64_t> kinds;
  kinds.reserve(set.own.groups.size());
  std::vector<std::int64_t> instances(kind_tables * kind_buckets, 0);
  for (const SampleGroup& group : set.own.groups) {
    const auto part = static_cast<std::uint64_t>((set.own.of(group).front().exit_ns - run.start_ns) / part_ns);
    std::uint64_t kind = splitmix(static_cast<std::uint64_t>(group.scale_class) * parts_of_run + part);
    for (const Sample& sample : set.own.of(group)) kind = splitmix(kind ^ static_cast<std::uint64_t>(sample.session));
    kinds.push_back(kind);
    for (std::size_t table = 0; table < kind_tables; ++table) ++instances[bucket(kind, table)];
  }
  instances = reduction.sum(instances);
  for (std::size_t g = 0; g < kinds.size(); ++g) {
    SampleGroup& group = set.own.groups[g];
    std::int64_t alike = instances[bucket(kinds[g], 0)];
    for (std::size_t table = 1; table < kind_tables; ++table) {
      alike = std::min(alike, instances[bucket(kinds[g], table)]);
    }
    const std::uint64_t one_in =
        std::bit_floor(std::max<std::uint64_t>(static_cast<std::uint64_t>(alike) / enough_instances, 1));
    group.multiplicity = splitmix(~group.hash) % one_in == 0 ? static_cast<std::int32_t>(one_in) : 0;
  }
  set.thinned = true;
}

}  // namespace

void update_biases(SampleSet& set) {
  constexpr double largest = 0.5;  // of how long it takes the last member: no spread is larger
  set.bias_ns.assign(set.sessions * set.biases, smallest_scale_ns);
  const std::size_t classes = set.sessions == 0 ? 0 : set.last_share.size() / set.sessions;
  for (std::size_t k = 0; k < classes; ++k) {
    const ScaleClass& scale_class = set.classes[k];
    const EndModel model = end_model(scale_class.operation, scale_class.by_tree);
    const double spread_ns = set.scales_are_known ? scale_class.scale_ns : largest * scale_class.least_ns;
    for (std::size_t s = 0; s < set.sessions; ++s) {
      double& bias_ns = set.bias_ns[s * set.biases + scale_class.bias];
      bias_ns = std::max(bias_ns, model.bias_ns(spread_ns, scale_class.least_ns, set.last_share[s * classes + k]));
    }
  }
}

void relate_sessions(SampleSet& set, const Reduction& reduction) {
  const auto synchronises = [&](const SampleGroup& group) {
    return is_synchronising(set.classes[group.scale_class].operation);
  };
  Components components(set.sessions);
  components.join(set.own, synchronises);
  set.bridged = components.agree(reduction);
  for (SampleGroup& group : set.own.groups) {
    bool bridges = false;
    for (const Sample& sample : set.own.of(group)) {
      bridges = bridges || set.bridged[sample.session] != set.bridged[set.own.samples[group.first].session];
    }
    group.usable = group.active = !set.classes[group.scale_class].is_loose && (synchronises(group) || bridges);
  }
  components.join(set.own, [](const SampleGroup& group) { return group.usable; });
  set.component = components.agree(reduction);

  set.observed.assign(set.sessions, 0);
  for (const SampleGroup& group : set.own.groups) {
    if (!group.usable) continue;
    for (const Sample& sample : set.own.of(group)) ++set.observed[sample.session];
  }
  set.observed = reduction.sum(set.observed);
}

bool find_loose_classes(SampleSet& set) {
  bool found = false;
  for (ScaleClass& scale_class : set.classes) {
    if (scale_class.is_loose || is_synchronising(scale_class.operation)) continue;
    scale_class.is_loose = scale_class.scale_ns > scale_class.least_ns;
    found = found || scale_class.is_loose;
  }
  return found;
}

SampleSet make_samples(std::span<const Session> sessions, std::span<const std::int32_t> number, const LevelZero& level,
                       const Observations& observations, const Reduction& reduction) {
  SampleSet set;
  set.sessions = sessions.size();
  set.own = own_samples(sessions, number, level, observations);
  agree_on_classes(set, reduction);
  measure_least_durations(set, reduction);
  assign_bias_columns(set);
  choose_part(set, reduction);
  join_communicators(set, number, observations);

  relate_sessions(set, reduction);
  return set;
}

}  // namespace nsys_explain::clock
