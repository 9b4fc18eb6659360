#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nsys_explain::ingest {

/// One map from kernel names to categories, as a user's file holds it.
struct NamedCategoryRules {
  std::string name;                                        ///< "ENGINE/MODEL"
  std::vector<std::pair<std::string, std::string>> rules;  ///< regular expression and category; the first match wins
};

/// The maps of a file in gputrc2graph's form: {"ENGINE": {"MODEL": {"PATTERN": "CATEGORY", ...}}}. Throws
/// std::runtime_error that names `path`: problem, why it matters, what to do. Patterns are not tried.
std::vector<NamedCategoryRules> parse_category_file(const std::string& text, const std::string& path);

}  // namespace nsys_explain::ingest
