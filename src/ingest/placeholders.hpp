#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nsys_explain::ingest {

/// The name with the placeholders that nsys takes in `-o` put in: %h the host's name (its first label), %q{VAR} the
/// environment variable VAR, %% a per cent sign. Others (%p, %n) differ from process to process and become `*`.
struct ExpandedName {
  std::string name;
  std::optional<std::string> unset_variable;  ///< the first %q{VAR} that is not set here; `name` is then of no use
};

/// True if the name holds a placeholder.
bool has_placeholder(std::string_view name);

ExpandedName expand_placeholders(std::string_view name);

}  // namespace nsys_explain::ingest
