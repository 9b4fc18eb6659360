#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// Names in a trace (hosts, paths, kernels) are foreign text: anything may be in them. Everything shown to a person
/// goes through one of these functions.
namespace nsys_explain::report {

/// Code points: the width in a terminal for all but East Asian and combining characters.
std::size_t text_width(std::string_view text);

/// One line that is safe in a terminal: white space becomes single spaces; control, direction-changing and invisible
/// characters become U+FFFD. Longer than `width` (at least 5), it loses its middle ("begin...end").
std::string plain_text(std::string_view text, std::size_t width);

/// `text` with what a terminal would obey, or not show, as escapes (\\x1B, \\u202E); so are bytes that are no text.
/// Spaces, tabs and ends of lines stay.
std::string visible_text(std::string_view text);

/// plain_text as inline Markdown that shows the same characters. Pairs of backticks stay code spans; all other
/// characters with a meaning in Markdown, HTML or GitHub's mathematics are escaped. Safe in table cells.
std::string markdown_text(std::string_view text, std::size_t width);

/// plain_text as a code span, safe in table cells; inside, ` is shown as ' and | as ¦. Empty text becomes "-".
std::string markdown_code(std::string_view text, std::size_t width);

/// As markdown_code, but a long path loses its beginning: the end tells files apart ("...job7/rank_0.sqlite").
std::string markdown_path(std::string_view path, std::size_t width);

/// Breaks at spaces so that no line is longer than `width`, where words allow. Never breaks before a word that would
/// start a list, heading or quotation in Markdown. `first` and `others` start the lines. Ends with a newline.
std::string wrap(std::string_view text, std::string_view first, std::string_view others, std::size_t width = 98);

/// 1234567 -> "1,234,567".
std::string format_count(std::int64_t count);

/// A share in percent with one decimal, "12.3%"; "-" where the whole is not positive.
std::string format_share(std::int64_t part, std::int64_t whole);

/// "5 inputs", "1 input".
std::string counted(std::int64_t count, std::string_view noun);

}  // namespace nsys_explain::report
