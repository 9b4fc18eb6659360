#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What the programs say about themselves beside their options.
namespace nsys_explain {

extern const char* const description;

/// Below the options: examples, commands, exit codes, and which topics there are.
std::string help_footer();

std::vector<std::string> help_topics();

/// The text of `--help TOPIC`; "all" is every topic. Nothing where there is no such topic.
std::optional<std::string> help_topic(std::string_view name);

/// " (did you mean X?)" for the known word that differs least from a mistyped one; empty where none is near.
std::string suggestion(std::string_view mistyped, const std::vector<std::string>& known);

}  // namespace nsys_explain
