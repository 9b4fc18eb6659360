#include "serve/report_answers.hpp"

#include <gmock/gmock.h>

#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

using ::testing::ElementsAre;
using Parameters = std::vector<std::pair<std::string, std::string>>;

std::vector<Json> some_reports() {
  return {{{"name", "llama/2026-11-25"},
           {"verdict", "rank 5 is slow"},
           {"severity", "high"},
           {"saved_share", 0.2},
           {"step_ns", 40},
           {"date_utc", "2026-11-25T10:00:00Z"}},
          {{"name", "llama/2026-11-26"},
           {"verdict", "nobody is late"},
           {"severity", "low"},
           {"saved_share", nullptr},
           {"step_ns", 30},
           {"date_utc", "2026-11-26T10:00:00Z"}},
          {{"name", "broken"}, {"problem", "damaged"}},
          {{"name", "moe7"},
           {"verdict", "Rank 1 sends more"},
           {"severity", "medium"},
           {"saved_share", 0.4},
           {"step_ns", nullptr},
           {"date_utc", "2026-11-24T10:00:00Z"}}};
}

std::vector<std::string> names(const Parameters& parameters) {
  std::vector<std::string> found;
  for (const Json& one : history_of(some_reports(), parse_history_query(parameters)).summaries)
    found.push_back(one["name"].get<std::string>());
  return found;
}

TEST(History, TheLatestComesFirstAndWhatCannotBeReadLast) {
  EXPECT_THAT(names({}), ElementsAre("llama/2026-11-26", "llama/2026-11-25", "moe7", "broken"));
}

TEST(History, BySavingSeverityStepAndName) {
  EXPECT_THAT(names({{"order", "-saving"}}), ElementsAre("moe7", "llama/2026-11-25", "llama/2026-11-26", "broken"));
  EXPECT_THAT(names({{"order", "-severity"}}), ElementsAre("llama/2026-11-25", "moe7", "llama/2026-11-26", "broken"));
  EXPECT_THAT(names({{"order", "-step"}}), ElementsAre("llama/2026-11-25", "llama/2026-11-26", "moe7", "broken"));
  EXPECT_THAT(names({{"order", "name"}}), ElementsAre("llama/2026-11-25", "llama/2026-11-26", "moe7", "broken"));
}

TEST(History, FindsInNamesAndVerdictsWithoutRegardToCase) {
  EXPECT_THAT(names({{"find", "RANK"}}), ElementsAre("llama/2026-11-25", "moe7"));
  EXPECT_THAT(names({{"find", "llama"}, {"order", "date"}}), ElementsAre("llama/2026-11-25", "llama/2026-11-26"));
  EXPECT_THAT(names({{"job", "moe"}}), ElementsAre("moe7"));
}

TEST(History, PagesAndSaysHowManyThereAre) {
  EXPECT_THAT(names({{"limit", "2"}, {"offset", "1"}}), ElementsAre("llama/2026-11-25", "moe7"));
  EXPECT_EQ(history_of(some_reports(), parse_history_query({{"limit", "1"}})).matching, 4U);
  EXPECT_THAT(names({{"offset", "9"}}), ElementsAre());
}

TEST(History, RefusesWhatMeansNothing) {
  for (const Parameters& parameters :
       {Parameters{{"order", "colour"}}, Parameters{{"limit", "-1"}}, Parameters{{"limit", "10001"}},
        Parameters{{"offset", "x"}}, Parameters{{"lions", "1"}}}) {
    EXPECT_THROW(parse_history_query(parameters), Refusal) << parameters[0].first;
  }
}

TEST(History, RunsOfAJobDifferByTheEndsOfTheirNames) {
  EXPECT_EQ(job_of("llama/2026-11-26T10-00"), "llama");
  EXPECT_EQ(job_of("job42"), "job");
  EXPECT_EQ(job_of("20261126"), "20261126");
  EXPECT_EQ(job_of("a/b-3"), "a/b");
  EXPECT_EQ(job_of("TZ"), "TZ");
}

}  // namespace

}  // namespace nsys_explain::serve
