#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Text files that users bring along: CSV of other tools, and small files written by hand.
namespace nsys_explain::analysis {

/// RFC 4180 with blanks around unquoted fields taken off ("%" of nvidia-smi's units stays). Empty lines are left out;
/// the last line may lack its end.
std::vector<std::vector<std::string>> parse_csv(std::string_view text);

/// What separates whole from fraction. Nsight Compute writes numbers by the locale it runs in.
enum class DecimalMark : std::uint8_t { point, comma };

/// comma where the text cannot be a number with a decimal point: "65,77", "27.595.520", "1.234,5". Many texts allow
/// both ("1,234"), so a file's mark is comma as soon as one of its numbers says so.
DecimalMark decimal_mark_of(std::string_view text);

/// A number with thousands separators (Nsight Compute) and anything after a blank (nvidia-smi's units): "1,234.5",
/// "300.12 W", "98 %". Empty: it is none ("N/A", "[Not Supported]", "nan"), or not written with that mark.
std::optional<double> parse_number(std::string_view text, DecimalMark mark = DecimalMark::point);

/// Lines of a file written by hand without comments (from '#' at the start of a line), blank ends, and empty lines.
struct Line {
  int number = 0;  ///< in the file, from 1
  std::string text;
};
std::vector<Line> significant_lines(std::string_view text);

/// Without blanks at its ends.
std::string_view trimmed(std::string_view text);

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace nsys_explain::analysis
