#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace nsys_explain {

/// A regular expression, all of them in this program: RE2's syntax, which is that of Perl and ECMAScript without
/// lookaround and backreferences, on UTF-8. A search takes time in proportion to the text and no stack, however long
/// the text and whatever the expression. Copies share what was compiled, threads may, too.
class Regex {
 public:
  /// Throws std::invalid_argument with what is wrong with the expression.
  explicit Regex(std::string_view expression);

  const std::string& text() const;
  int group_count() const;

  /// Whether it matches anywhere in the text.
  bool occurs_in(std::string_view text) const;

  struct Match {
    std::optional<std::string_view> first_group;  ///< empty where there is none, or it took no part in the match
  };
  /// The first match in the text.
  std::optional<Match> find(std::string_view text) const;

 private:
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace nsys_explain
