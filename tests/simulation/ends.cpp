#include "simulation/ends.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "simulation/ends_text.hpp"
#include "simulation/job_plan.hpp"
#include "simulation/random.hpp"

namespace nsys_explain::synth {
namespace {

Operation operation_of(const std::string& name) {
  for (int code = 0; code <= static_cast<int>(Operation::barrier); ++code)
    if (operation_name(static_cast<Operation>(code)) == name) return static_cast<Operation>(code);
  throw PlanError(fmt::format("'{}' is no operation, so its ends have no law; name one such as all_reduce", name));
}

EndsClass class_of(const nlohmann::json& json) {
  EndsClass one;
  one.operation = operation_of(json.at("operation"));
  one.bytes_below = json.at("bytes_below");
  one.members = json.at("members");
  one.by_tree = json.value("algorithm", "ring") == "tree";
  one.bias_us = json.value("bias_us", std::vector<double>());
  one.spread_us = json.value("spread_us", std::vector<double>());
  one.between = json.value("between", std::vector<double>());
  one.nobody_waits = json.value("nobody_waits", 0.0);
  one.bias_low_us = json.value("bias_low_us", 0.0);
  one.bias_high_us = json.value("bias_high_us", 0.0);
  one.half_normal_median_us = json.value("half_normal_median_us", 0.0);
  one.log_normal_median_us = json.value("log_normal_median_us", 0.0);
  one.bias_sigma = json.value("bias_sigma", 0.0);
  one.sigma = json.value("sigma", 0.0);
  one.most_us = json.value("most_us", 0.0);
  return one;
}

EndsLaw law_of(const nlohmann::json& file, const std::string& name) {
  const nlohmann::json& json = file.at("laws").at(name);
  EndsLaw law;
  law.name = name;
  law.source = json.at("source");
  for (const double percent : file.at("percent")) law.shares.push_back(percent / 100);
  for (const nlohmann::json& one : json.at("classes")) {
    law.classes.push_back(class_of(one));
    for (const std::vector<double>* table :
         {&law.classes.back().bias_us, &law.classes.back().spread_us, &law.classes.back().between})
      if (!table->empty() && table->size() != law.shares.size())
        throw PlanError(
            fmt::format("a table of the law {} has {} figures for {} shares, so it means nothing; measure it again",
                        name, table->size(), law.shares.size()));
  }
  return law;
}

double quantile(const EndsLaw& law, const std::vector<double>& table, double share) {
  if (table.empty()) return 0;
  const auto above = std::upper_bound(law.shares.begin(), law.shares.end() - 1, share);
  const std::size_t i = std::max<std::size_t>(1, static_cast<std::size_t>(above - law.shares.begin()));
  const double part = (share - law.shares[i - 1]) / (law.shares[i] - law.shares[i - 1]);
  return table[i - 1] + part * (table[i] - table[i - 1]);
}

/// The class of the most members that are no more than these, of the smallest size above the bytes. What was measured
/// of larger groups or smaller calls only stands for the rest; operations that were not, are like an all-reduce.
std::size_t class_index(const EndsLaw& law, Operation operation, std::int64_t bytes, std::size_t members) {
  const auto has = [&](Operation wanted) {
    return std::any_of(law.classes.begin(), law.classes.end(),
                       [&](const EndsClass& one) { return one.operation == wanted; });
  };
  if (!has(operation)) operation = Operation::all_reduce;
  const auto key = [&](const EndsClass& one) {
    const bool small_enough = static_cast<std::size_t>(one.members) <= members, large_enough = one.bytes_below > bytes;
    return std::tuple(one.operation == operation, large_enough, large_enough ? -one.bytes_below : one.bytes_below,
                      small_enough, small_enough ? one.members : -one.members);
  };
  const auto best = std::max_element(law.classes.begin(), law.classes.end(),
                                     [&](const EndsClass& a, const EndsClass& b) { return key(a) < key(b); });
  return static_cast<std::size_t>(best - law.classes.begin());
}

/// Independent of the others'.
double assumed_delay_ns(const EndsClass& one, const EndsInstance& instance, std::int32_t rank) {
  constexpr double median_of_half_normal = 0.6745;
  Draw draw(instance.seed, Purpose::end_jitter, instance.channel, static_cast<std::uint64_t>(instance.position),
            static_cast<std::uint64_t>(rank));
  Draw bias(instance.seed, Purpose::rank_bias, instance.channel, static_cast<std::uint64_t>(rank));
  if (one.log_normal_median_us > 0) {
    const double lasting = one.bias_sigma * bias.normal();
    return std::min(1000 * one.most_us,
                    1000 * one.log_normal_median_us * std::exp(lasting + one.sigma * draw.normal()));
  }
  return bias.uniform(1000 * one.bias_low_us, 1000 * one.bias_high_us) +
         1000 * one.half_normal_median_us / median_of_half_normal * std::abs(draw.normal());
}

std::vector<double> measured_delays_ns(const EndsLaw& law, std::size_t index, const EndsInstance& instance,
                                       const std::vector<EndsMember>& members) {
  const EndsClass& one = law.classes[index];
  const auto position = static_cast<std::uint64_t>(instance.position);
  Draw draw(instance.seed, Purpose::end_spread, instance.channel, position);
  const double spread_us = quantile(law, one.spread_us, draw.uniform());
  std::vector<double> places(members.size());
  for (std::size_t i = 1; i + 1 < members.size(); ++i)
    places[i] = one.between.empty() ? draw.uniform() : quantile(law, one.between, draw.uniform());
  places.back() = members.size() > 1 ? 1 : 0;
  std::sort(places.begin(), places.end());

  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](std::size_t i) {
    Draw place(instance.seed, Purpose::end_jitter, instance.channel, position,
               static_cast<std::uint64_t>(members[i].rank));
    return std::pair(members[i].receives && !members[i].sends, place.bits());
  };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });

  std::vector<double> delays(members.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    // One bias for a rank and class, in whatever group: the order of leaving lasts.
    Draw bias(instance.seed, Purpose::rank_bias, index, static_cast<std::uint64_t>(members[order[i]].rank));
    delays[order[i]] = 1000 * (spread_us * places[i] + quantile(law, one.bias_us, bias.uniform()));
  }
  const double first = *std::min_element(delays.begin(), delays.end());
  for (double& delay : delays) delay -= first;
  return delays;
}

}  // namespace

EndsLaw ends_law(const std::string& name_or_file) {
  const bool is_file = name_or_file.find('/') != std::string::npos || name_or_file.find(".json") != std::string::npos;
  std::stringstream text;
  if (is_file)
    text << std::ifstream(name_or_file).rdbuf();
  else
    text << ends_text;
  try {
    const nlohmann::json file = nlohmann::json::parse(text.str());
    std::vector<std::string> names;
    for (const auto& [name, _] : file.at("laws").items()) names.push_back(name);
    if (is_file && !names.empty()) return law_of(file, names.front());
    if (std::find(names.begin(), names.end(), name_or_file) == names.end())
      throw PlanError(fmt::format("there is no law of ends '{}', so no member could leave; name one of {}, or a file",
                                  name_or_file, fmt::join(names, ", ")));
    return law_of(file, name_or_file);
  } catch (const nlohmann::json::exception& problem) {
    throw PlanError(fmt::format("{} holds no law of ends, so no member could leave: {}; write it as ends.json is",
                                name_or_file, problem.what()));
  }
}

std::vector<double> end_delays_ns(const EndsLaw& law, const EndsInstance& instance,
                                  const std::vector<EndsMember>& members) {
  const std::size_t index = class_index(law, instance.operation, instance.bytes, members.size());
  if (!law.classes[index].spread_us.empty()) return measured_delays_ns(law, index, instance, members);
  std::vector<double> delays;
  for (const EndsMember& member : members)
    delays.push_back(assumed_delay_ns(law.classes[index], instance, member.rank));
  return delays;
}

bool has_trees(const EndsLaw& law) {
  return std::any_of(law.classes.begin(), law.classes.end(), [](const EndsClass& one) { return one.by_tree; });
}

bool goes_by_tree(const EndsLaw& law, Operation operation, std::int64_t bytes, std::size_t members) {
  return law.classes[class_index(law, operation, bytes, members)].by_tree;
}

bool no_sender_waits(const EndsLaw& law, std::int64_t bytes) {
  return law.classes[class_index(law, Operation::send_recv, bytes, 2)].nobody_waits >= 1;
}

bool leaves_at_once(const EndsLaw& law, const EndsInstance& instance, const std::vector<EndsMember>& members) {
  if (members.size() != 2 || members[0].sends == members[0].receives || members[1].sends == members[1].receives)
    return false;
  const EndsClass& one = law.classes[class_index(law, instance.operation, instance.bytes, members.size())];
  Draw draw(instance.seed, Purpose::end_waits, instance.channel, static_cast<std::uint64_t>(instance.position));
  return draw.uniform() < one.nobody_waits;
}

}  // namespace nsys_explain::synth
