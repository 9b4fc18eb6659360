#include "simulation/keys.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "simulation/job_plan.hpp"

namespace nsys_explain::synth {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace

void Keys::refuse(const std::string& key, const std::string& value, const std::string& expected) const {
  throw PlanError(
      fmt::format("'{}={}' in {} is not understood, so {}; expected {}", key, value, option_, consequence_, expected));
}

double Keys::number_of(const std::string& key, const std::string& value, const char* expected) const {
  double number = 0;
  const char* end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end || !std::isfinite(number)) refuse(key, value, expected);
  return number;
}

std::int32_t Keys::count_of(const std::string& key, const std::string& value) const {
  std::int32_t number = 0;
  const char* end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end || number < 0) refuse(key, value, "a whole number, 0 or more");
  return number;
}

void Keys::number(const char* key, double& value, const char* meaning) {
  add({key, fmt::format("{}", value), meaning,
       [key, &value](const Keys& keys, const std::string& text) { value = keys.number_of(key, text, "a number"); }});
}

void Keys::count(const char* key, std::int32_t& value, const char* meaning) {
  add({key, fmt::format("{}", value), meaning,
       [key, &value](const Keys& keys, const std::string& text) { value = keys.count_of(key, text); }});
}

void Keys::time(const char* key, Nanoseconds& value, double unit_ns, const char* meaning) {
  add({key, fmt::format("{}", static_cast<double>(value) / unit_ns), meaning,
       [key, &value, unit_ns](const Keys& keys, const std::string& text) {
         value = static_cast<Nanoseconds>(keys.number_of(key, text, "a number") * unit_ns);
       }});
}

void Keys::places(const char* key, std::vector<std::int32_t>& values, const char* meaning) {
  add({key, "", meaning, [key, &values](const Keys& keys, const std::string& text) {
         values.clear();
         for (const std::string& part : split(text, '+')) values.push_back(keys.count_of(key, part));
         std::sort(values.begin(), values.end());
         values.erase(std::unique(values.begin(), values.end()), values.end());
       }});
}

void Keys::text(const char* key, std::string& value, const char* meaning) {
  add({key, value, meaning, [&value](const Keys&, const std::string& text) { value = text; }});
}

void Keys::flag(const char* key, bool& value, const char* meaning, bool sense) {
  Key flag{key, "", meaning, [&value, sense](const Keys&, const std::string&) { value = sense; }};
  flag.is_flag = true;
  add(std::move(flag));
}

void Keys::quantity(const char* key, std::function<void(double)> set, std::vector<std::pair<std::string, double>> units,
                    const char* expected) {
  add({key, "", "",
       [key, set = std::move(set), units = std::move(units), expected](const Keys& keys, const std::string& text) {
         double number = 0;
         const char* end = text.data() + text.size();
         const auto parsed = std::from_chars(text.data(), end, number);
         const std::string unit(parsed.ptr, end);
         const auto known =
             std::find_if(units.begin(), units.end(), [&](const auto& one) { return one.first == unit; });
         if (parsed.ec != std::errc{} || number < 0 || known == units.end()) keys.refuse(key, text, expected);
         set(number * known->second);
       }});
}

void Keys::custom(const char* key, std::string shown_default, const char* meaning,
                  std::function<void(const std::string&)> set) {
  add({key, std::move(shown_default), meaning,
       [set = std::move(set)](const Keys&, const std::string& text) { set(text); }});
}

void Keys::set(const std::string& text) const {
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const auto key = std::find_if(keys_.begin(), keys_.end(), [&](const Key& one) { return one.name == name; });
    if (key == keys_.end()) {
      std::vector<std::string> names;
      for (const Key& one : keys_) names.push_back(one.name);
      throw PlanError(fmt::format("unknown key '{}' in {}, so {}; its keys are {}", name, option_, consequence_,
                                  fmt::join(names, ", ")));
    }
    if (key->is_flag && equals != std::string::npos)
      refuse(name, part.substr(equals + 1), "the key alone, without a value");
    if (!key->is_flag && equals == std::string::npos) refuse(name, "", "a value");
    key->set(*this, key->is_flag ? "" : part.substr(equals + 1));
  }
}

std::string Keys::help() const {
  std::string text;
  for (const Key& key : keys_) {
    if (key.meaning.empty()) continue;
    std::string shown = key.name;
    if (!key.is_flag) shown += "=" + key.shown_default;
    text += fmt::format("  {:<28} {}\n", shown, key.meaning);
  }
  return text;
}

}  // namespace nsys_explain::synth
