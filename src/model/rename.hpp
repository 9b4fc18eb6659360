#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace nsys_explain {

/// A rule that makes names alike: every match of a regular expression (regex.hpp) is replaced; \1 to \9 in the
/// replacement are what the groups matched, \0 all of it.
class Rename {
 public:
  /// Throws std::invalid_argument with what is wrong with the expression or the replacement.
  Rename(std::string_view expression, std::string_view replacement);

  std::string of(std::string_view name) const;

 private:
  std::shared_ptr<const re2::RE2> compiled_;
  std::string replacement_;
};

}  // namespace nsys_explain
