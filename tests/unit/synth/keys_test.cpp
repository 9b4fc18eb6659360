// Lists of keys, as options of nsys-explain-synth have them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulation/job_plan.hpp"
#include "simulation/keys.hpp"

namespace nsys_explain::synth::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Colour { red, green };

struct Values {
  double share = 0.5;
  std::int32_t count = 3;
  Nanoseconds time_ns = 2'000;
  std::vector<std::int32_t> ranks;
  std::string text = "2.27";
  bool on = false, off = true;
  Colour colour = Colour::red;
};

Keys keys_of(Values& values) {
  Keys keys("--thing", "nothing works");
  keys.number("share", values.share, "a share");
  keys.count("count", values.count, "a count");
  keys.time("time_us", values.time_ns, 1e3, "a time");
  keys.places("ranks", values.ranks, "some ranks");
  keys.text("text", values.text, "a text");
  keys.flag("on", values.on, "turns on");
  keys.flag("no_off", values.off, "turns off", false);
  keys.choice<Colour>("colour", values.colour, {{"red", Colour::red}, {"green", Colour::green}}, "a colour");
  return keys;
}

TEST(Keys, SetWhatTheyName) {
  Values values;
  const Keys keys = keys_of(values);
  keys.set("share=0.25,count=4,time_us=1.5,ranks=5+3+5,text=a.b,on,no_off,colour=green");
  EXPECT_EQ(values.share, 0.25);
  EXPECT_EQ(values.count, 4);
  EXPECT_EQ(values.time_ns, 1'500);
  EXPECT_THAT(values.ranks, ElementsAre(3, 5));
  EXPECT_EQ(values.text, "a.b");
  EXPECT_TRUE(values.on);
  EXPECT_FALSE(values.off);
  EXPECT_EQ(values.colour, Colour::green);
  keys.set("share=-1");
  EXPECT_EQ(values.share, -1) << "the last value holds";
  EXPECT_EQ(values.count, 4) << "and others stay";
}

TEST(Keys, RefuseWhatTheyDoNotUnderstand) {
  Values values;
  const Keys keys = keys_of(values);
  for (const char* text : {"", "size=3", "share", "share=", "share=a", "share=1x", "share=nan", "count=-1", "count=1.5",
                           "ranks=1,2", "ranks=1+", "on=1", "colour=blue", "share=1,,count=2"})
    EXPECT_THROW(keys.set(text), PlanError) << text;
}

TEST(Keys, SayProblemConsequenceAndCure) {
  Values values;
  const Keys keys = keys_of(values);
  const auto message = [&](const char* text) -> std::string {
    try {
      keys.set(text);
    } catch (const PlanError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("colour=blue"),
            "'colour=blue' in --thing is not understood, so nothing works; expected one of red|green");
  EXPECT_EQ(
      message("size=3"),
      "unknown key 'size' in --thing, so nothing works; its keys are share, count, time_us, ranks, text, on, no_off, colour");
}

TEST(Keys, HelpHasADefaultAndAMeaningOfEach) {
  Values values;
  const std::string help = keys_of(values).help();
  for (const char* line : {"share=0.5 ", "count=3 ", "time_us=2 ", "ranks= ", "text=2.27 ", "on ", "colour=red "})
    EXPECT_THAT(help, HasSubstr(line));
  EXPECT_THAT(help, HasSubstr("a colour (red|green)"));
}

}  // namespace
}  // namespace nsys_explain::synth::test
