#include "report/text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace nsys_explain::report {
namespace {

TEST(PlainText, IsOneSafeLine) {
  EXPECT_EQ(plain_text("  two\r\n\tlines \n", 80), "two lines");
  EXPECT_EQ(plain_text("\x1b[31mred\x07", 80), "\uFFFD[31mred\uFFFD");
  EXPECT_EQ(plain_text("\u202Egnp.exe", 80), "\uFFFDgnp.exe");       // right-to-left override
  EXPECT_EQ(plain_text("a\u0085\u200Bb", 80), "a\uFFFD\uFFFD\x62");  // next line, zero-width space
  EXPECT_EQ(plain_text("", 80), "");
}

TEST(VisibleText, ShowsEverythingAndSendsNothingElse) {
  EXPECT_EQ(visible_text("two\n\tlines of größe"), "two\n\tlines of größe");
  EXPECT_EQ(visible_text("\x1b[2J\r\x7f"), "\\x1B[2J\\x0D\\x7F");
  EXPECT_EQ(visible_text("\u202Egnp\u0085\u2066"), "\\u202Egnp\\x85\\u2066");
  EXPECT_EQ(visible_text("\U000E0041 \xff"), "\\uE0041 \\xFF");
  EXPECT_EQ(visible_text(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(PlainText, LosesTheMiddleBeyondItsWidth) {
  EXPECT_EQ(plain_text("0123456789", 10), "0123456789");
  EXPECT_EQ(plain_text("0123456789x", 10), "0123...89x");
  EXPECT_EQ(plain_text("ääääääääääää", 7), "ää...ää");
  EXPECT_EQ(plain_text("0123456789", 1), "0...9");
  EXPECT_EQ(text_width(plain_text(std::string(5000, 'x'), 40)), 40u);
}

TEST(MarkdownText, WordsThatHaveAMeaningAreCode) {
  EXPECT_EQ(markdown_text("a|b <script>x</script> *b* [l](u) $m$ ~~s~~ \\", 200),
            "`a\u00A6\x62` `<script>x</script>` `*b*` `[l](u)` `$m$` `~~s~~` `\\`");
  EXPECT_EQ(markdown_text("slow_kernel rank_%q _it_, is &amp; AT&T & co", 200),
            "slow_kernel rank_%q `_it_`, is `&amp`; `AT&T` & co");
  EXPECT_EQ(markdown_text("[CUDA memcpy] (blocks.19._checkpoint_wrapped): 3", 200),
            "[CUDA memcpy] `(blocks.19._checkpoint_wrapped)`: 3");
  EXPECT_EQ(markdown_text("[two words](u) and [x]: u", 200), "[two `words](u)` and `[x]`: u");
  // The name of a kernel is one, with its lists of arguments; one that is cut is none.
  EXPECT_EQ(markdown_text("most of it: void at::f<4, at::g<int>, char*>(int, T2 *), 3 times", 200),
            "most of it: void `at::f<4, at::g<int>, char*>(int, T2 *)`, 3 times");
  EXPECT_EQ(markdown_text("f<int, ...T2 of it", 200), "`f<int`, ...T2 of it");
  EXPECT_EQ(markdown_text("# no heading", 200), "\\# no heading");
  EXPECT_EQ(markdown_text("- no item", 200), "\\- no item");
  EXPECT_EQ(markdown_text("12. no number", 200), "12\\. no number");
  EXPECT_EQ(markdown_text("> no quote", 200), "\\> no quote");
  EXPECT_EQ(markdown_text("1.5 ms --flag", 200), "1.5 ms --flag");
  EXPECT_EQ(markdown_text("", 200), "");
}

TEST(MarkdownText, KeepsPairsOfBackticksAndDefusesOthers) {
  EXPECT_EQ(markdown_text("use `--a_b=*` now", 200), "use `--a_b=*` now");
  EXPECT_EQ(markdown_text("`a|b` and | ", 200), "`a\u00A6\x62` and `\u00A6`");
  EXPECT_EQ(markdown_text("one ` only <b>", 200), "one ' only `<b>`");
  EXPECT_EQ(markdown_text("```js <b>``` x", 200), "'''js `<b>'''` x");
  EXPECT_EQ(markdown_text("`a`<b> and *`c`", 200), "`a`\\<b> and \\*`c`");
}

TEST(MarkdownCode, CannotBeLeft) {
  EXPECT_EQ(markdown_code("a`b|<script>", 80), "`a'b\u00A6<script>`");
  EXPECT_EQ(markdown_code("  ", 80), "-");
}

TEST(MarkdownPath, KeepsItsEnd) {
  EXPECT_EQ(markdown_path("traces/rank_0.sqlite", 20), "`traces/rank_0.sqlite`");
  EXPECT_EQ(markdown_path("/a/traces/rank_0.sqlite", 16), "`...rank_0.sqlite`");
  EXPECT_EQ(markdown_path("\xff`|", 9), "`\uFFFD'\u00A6`");
  EXPECT_EQ(markdown_path("", 9), "-");
}

TEST(Wrap, BreaksAtSpacesOnly) {
  EXPECT_EQ(wrap("one two three", "- ", "  ", 9), "- one two\n  three\n");
  EXPECT_EQ(wrap("averyveryverylongword x", "", "", 5), "averyveryverylongword\nx\n");
  EXPECT_EQ(wrap("", "- ", "  ", 9), "- \n");
}

TEST(Wrap, NeverStartsALineThatMarkdownMisreads) {
  EXPECT_EQ(wrap("1234567 - b", "", "", 8), "1234567 -\nb\n");
  EXPECT_EQ(wrap("1234567 2. b", "", "", 8), "1234567 2.\nb\n");
  EXPECT_EQ(wrap("1234567 --- b", "", "", 8), "1234567 ---\nb\n");
  EXPECT_EQ(wrap("1234567 --flag", "", "", 8), "1234567\n--flag\n");
}

TEST(Counts, AreGrouped) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1'000), "1,000");
  EXPECT_EQ(format_count(-123'456), "-123,456");
  EXPECT_EQ(format_count(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(counted(1, "input"), "1 input");
  EXPECT_EQ(counted(2'000, "input"), "2,000 inputs");
  EXPECT_EQ(format_share(1, 8), "12.5%");
  EXPECT_EQ(format_share(1, 0), "-");
}

}  // namespace
}  // namespace nsys_explain::report
