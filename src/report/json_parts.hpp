#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/time.hpp"

/// What report.json is put together from.
namespace nsys_explain::report {

using Json = nlohmann::ordered_json;

template <class T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// A point in time, or null where there is none.
inline Json point_in_time(Nanoseconds time_ns) {
  return time_ns == no_time ? Json(nullptr) : Json(time_ns);
}

/// A member of report.json, made when it is asked for: of ten thousand trace ranks some take a hundred megabytes.
struct JsonSection {
  std::string name;
  std::function<Json()> make;
};

/// All of them, in order. `report` must outlive them.
std::vector<JsonSection> json_sections(const JobReport& report);

/// One object per element, in order. Never null: an empty vector is an empty array.
template <class T, class ToObject>
Json array_of(const std::vector<T>& elements, const ToObject& to_object) {
  Json array = Json::array();
  for (const T& element : elements) array.push_back(to_object(element));
  return array;
}

}  // namespace nsys_explain::report
