#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Text files that users bring along: CSV of other tools, and small files written by hand.
namespace nsys_explain::analysis {

/// RFC 4180 with blanks around unquoted fields taken off ("%" of nvidia-smi's units stays). Empty lines are left out;
/// the last line may lack its end.
std::vector<std::vector<std::string>> parse_csv(std::string_view text);

/// A number with thousands separators (Nsight Compute) and anything after a blank (nvidia-smi's units): "1,234.5",
/// "300.12 W", "98 %". Empty: it is none ("N/A").
std::optional<double> parse_number(std::string_view text);

/// Lines of a file written by hand without comments (from '#' at the start of a line), blank ends, and empty lines.
struct Line {
  int number = 0;  ///< in the file, from 1
  std::string text;
};
std::vector<Line> significant_lines(std::string_view text);

}  // namespace nsys_explain::analysis
