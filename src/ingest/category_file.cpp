#include "ingest/category_file.hpp"

#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace nsys_explain::ingest {
namespace {

constexpr const char* file_form = R"({"ENGINE": {"MODEL": {"PATTERN": "CATEGORY", ...}}})";

}  // namespace

std::vector<NamedCategoryRules> parse_category_file(const std::string& text, const std::string& path) {
  using Json = nlohmann::ordered_json;  // the order of the patterns decides
  const auto refuse = [&](std::string_view problem) {
    throw std::runtime_error(fmt::format("the category map {} {}, so kernels cannot be told by it; write it as {}",
                                         path, problem, file_form));
  };
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) refuse("is not JSON");
  if (!document.is_object()) refuse("holds no object");
  std::vector<NamedCategoryRules> maps;
  for (const auto& [engine, models] : document.items()) {
    if (!models.is_object()) refuse(fmt::format("has no models in '{}'", engine));
    for (const auto& [model, rules] : models.items()) {
      NamedCategoryRules map{fmt::format("{}/{}", engine, model), {}};
      if (!rules.is_object() || rules.empty()) refuse(fmt::format("has no patterns in '{}'", map.name));
      for (const auto& [pattern, category] : rules.items()) {
        if (!category.is_string()) refuse(fmt::format("has a category that is no text for '{}'", pattern));
        map.rules.emplace_back(pattern, category.get<std::string>());
      }
      maps.push_back(std::move(map));
    }
  }
  if (maps.empty()) refuse("is empty");
  return maps;
}

}  // namespace nsys_explain::ingest
