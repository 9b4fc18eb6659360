#pragma once

#include <functional>

#include <nlohmann/json.hpp>

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"
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

/// The object `clock` of report.json.
Json clock_json(const ClockReport& clock);

/// Which members lack operations, and where members first part. Members that lack nothing inside of their captures are
/// left out: they are in the tables. Empty lists where the tables are not there.
Json matching_json(const std::vector<Table>& tables);

/// A row by its columns.
Json object_of(const Table& table, std::size_t row);
Json objects_of(const Table& table);

/// The lists of an object of report.json, as the tables of the report declare them.
Json lists_of(const JobReport& report, std::string_view object);

/// Likewise, a list of report.json itself; an empty array where nothing declares it.
Json list_of(const JobReport& report, std::string_view list);

/// Shares of kernel time with a launching call and inside NVTX ranges, over all trace ranks, or null.
Json attribution_json(const JobReport& report);

/// The object `activity` of report.json: what the tables of all trace ranks add up to.
Json activity_json(const JobReport& report);

}  // namespace nsys_explain::report
