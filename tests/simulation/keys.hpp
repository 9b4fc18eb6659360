#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nsys_explain/model/time.hpp"
#include "simulation/laws.hpp"

namespace nsys_explain::synth {

/// Reads "key=value,key,key=value" into plain data: a table of keys tells what each sets, its default and its meaning.
/// What the keys set must outlive the table. Texts of several options of one kind add up; the last value of a key
/// holds.
class Keys {
 public:
  /// `option` as a user writes it; `consequence`: why a wrong text matters.
  Keys(std::string option, std::string consequence)
      : option_(std::move(option)), consequence_(std::move(consequence)) {}

  void number(const char* key, double& value, const char* meaning);
  void count(const char* key, std::int32_t& value, const char* meaning);  ///< 0 or more
  /// A number of `unit_ns` each.
  void time(const char* key, Nanoseconds& value, double unit_ns, const char* meaning);
  void places(const char* key, std::vector<std::int32_t>& values, const char* meaning);  ///< "3+5"; ascending, unique
  void text(const char* key, std::string& value, const char* meaning);
  void flag(const char* key, bool& value, const char* meaning, bool sense = true);  ///< a key without value
  template <typename T>
  void choice(const char* key, T& value, const std::vector<std::pair<const char*, T>>& choices, const char* meaning) {
    std::string names, chosen;
    std::map<std::string, T> by_name;
    for (const auto& [name, of] : choices) {
      names += (names.empty() ? "" : "|") + std::string(name);
      if (of == value) chosen = name;
      by_name.emplace(name, of);
    }
    add({key, chosen, *meaning == 0 ? "" : std::string(meaning) + " (" + names + ")",
         [key, &value, names, by_name](const Keys& keys, const std::string& text) {
           const auto found = by_name.find(text);
           if (found == by_name.end()) keys.refuse(key, text, "one of " + names);
           value = found->second;
         }});
  }
  /// A number with one of these units, each with its factor ("" is a unit, too).
  void quantity(const char* key, std::function<void(double)> set, std::vector<std::pair<std::string, double>> units,
                const char* expected);
  void custom(const char* key, std::string shown_default, const char* meaning,
              std::function<void(const std::string&)> set);

  /// Sets what `text` names. Throws PlanError.
  void set(const std::string& text) const;

  /// A line per key: its default and its meaning; keys without a meaning are left out.
  std::string help() const;

 private:
  struct Key {
    std::string name;
    std::string shown_default;  ///< empty: a flag, or none
    std::string meaning;
    std::function<void(const Keys&, const std::string&)> set;
    bool is_flag = false;
  };
  void add(Key key) { keys_.push_back(std::move(key)); }
  [[noreturn]] void refuse(const std::string& key, const std::string& value, const std::string& expected) const;
  double number_of(const std::string& key, const std::string& value, const char* expected) const;
  std::int32_t count_of(const std::string& key, const std::string& value) const;

  std::string option_, consequence_;
  std::vector<Key> keys_;
};

inline std::vector<std::pair<const char*, Law>> laws() {
  return {{"steady", Law::steady},
          {"log_normal", Law::log_normal},
          {"pareto", Law::pareto},
          {"bimodal", Law::bimodal},
          {"wandering", Law::wandering}};
}

}  // namespace nsys_explain::synth
