#include "analysis/window/steps.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

using Members = std::vector<StepTies::Member>;

OwnSteps counted(std::int64_t steps, Nanoseconds first_ns = 0) {
  OwnSteps own;
  own.steps = steps;
  own.first_ns = first_ns;
  own.usual_ns = 100;
  return own;
}

OwnSteps numbered(std::int64_t steps, std::int64_t first_number) {
  OwnSteps own = counted(steps);
  own.numbered = 1;
  own.first_number = first_number;
  return own;
}

TEST(JobSteps, InstancesTellWhichStepsAreOne) {
  // The capture of rank 1 began two steps later than that of rank 0, that of rank 2 one step later; that of rank 3, who
  // meets rank 2 alone, four steps before that. Once a record was lost: rank 1 seems to be in the step before.
  StepTies ties;
  for (std::int32_t step = 2; step < 9; ++step) {
    ties.add(Members{{0, step}, {1, step == 5 ? step - 3 : step - 2}, {2, step - 1}});
    ties.add(Members{{2, step}, {3, step + 4}});
  }
  const std::vector<OwnSteps> own(4, counted(20));
  EXPECT_EQ(relate_steps(own, ties.all()), (std::vector<std::int32_t>{3, 5, 4, 0}));
}

TEST(JobSteps, WhoeverCameLateWhateverTheClocksSay) {
  StepTies ties;
  for (std::int32_t step = 0; step < 5; ++step) ties.add(Members{{0, step}, {1, step}});
  EXPECT_EQ(relate_steps(std::vector{counted(5, 0), counted(5, 170)}, ties.all()), (std::vector<std::int32_t>{0, 0}));
}

TEST(JobSteps, WithoutTiesByNumberOrElseByTime) {
  EXPECT_EQ(relate_steps(std::vector{numbered(5, 12), numbered(5, 10)}, {}), (std::vector<std::int32_t>{2, 0}));
  EXPECT_EQ(relate_steps(std::vector{counted(5, 1000), counted(5, 1290), counted(5, 960)}, {}),
            (std::vector<std::int32_t>{0, 3, 0}));
}

TEST(JobSteps, RanksOfAnotherJobAreNotCounted) {
  StepTies ties;
  for (std::int32_t step = 0; step < 5; ++step) ties.add(Members{{0, step}, {1, step}});
  constexpr Nanoseconds months = 10'000'000'000'000'000;
  EXPECT_EQ(relate_steps(std::vector{counted(5, 0), counted(5, 0), counted(5, months), numbered(5, 7)}, ties.all()),
            (std::vector<std::int32_t>{0, 0, not_counted, 0}));
  EXPECT_EQ(relate_steps(std::vector{numbered(5, 12), numbered(5, 17)}, {}),
            (std::vector<std::int32_t>{0, not_counted}));
}

TEST(JobSteps, WhoHasNoneIsNotCounted) {
  EXPECT_EQ(relate_steps(std::vector{counted(5), counted(0)}, {}), (std::vector<std::int32_t>{0, not_counted}));
  EXPECT_TRUE(relate_steps({}, {}).empty());
}

TEST(JobSteps, AnInstanceIsInTheStepOfMostOfItsMembers) {
  const auto common = [](std::vector<std::int32_t> steps) { return common_step(steps); };
  EXPECT_EQ(common({7, 8, 7}), 7);
  EXPECT_EQ(common({8, 7}), 7) << "of two alike the earlier";
  EXPECT_EQ(common({-1, 8, -1}), 8);
  EXPECT_EQ(common({-1, -1}), -1);
  EXPECT_EQ(common({}), -1);
}

}  // namespace
}  // namespace nsys_explain::analysis
