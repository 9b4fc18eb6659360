#include "exchange/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "environment.hpp"
#include "exchange/session.hpp"

namespace nsys_explain::exchange {
namespace {

using testing::HasSubstr;
using testing::Optional;

// What srun --mpi=none puts into the environment of the third of four tasks.
const std::map<std::string, std::string> kSlurmWithoutPmi = {{"SLURM_JOB_ID", "17"}, {"SLURM_NODELIST", "h[1-2]"},
                                                             {"SLURM_PROCID", "2"},  {"SLURM_NTASKS", "4"},
                                                             {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}};

TEST(LaunchedByMpi, NotInABareEnvironment) {
  EXPECT_FALSE(launched_by_mpi(environment_of({})));
  EXPECT_FALSE(launched_by_mpi(environment_of({{"OMPI_MCA_btl", "self"}, {"PATH", "/usr/bin"}})));
}

TEST(LaunchedByMpi, NotBySlurmsVariablesAlone) {
  EXPECT_FALSE(launched_by_mpi(environment_of(kSlurmWithoutPmi)));
}

TEST(LaunchedByMpi, ByEveryKnownLauncher) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_PORT",
                           "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE", "PALS_RANKID"}) {
    EXPECT_TRUE(launched_by_mpi(environment_of({{name, "0"}}))) << name;
  }
}

TEST(LaunchedByMpi, LooksAtThisProcess) {
  const ScopedVariable variable("MV2_COMM_WORLD_SIZE", "2");
  EXPECT_TRUE(launched_by_mpi());
}

TEST(ProcessEnvironment, EmptyIsUnset) {
  const ScopedVariable variable("NSYS_EXPLAIN_TEST_VARIABLE", "");
  EXPECT_EQ(process_environment("NSYS_EXPLAIN_TEST_VARIABLE"), std::nullopt);
  EXPECT_EQ(process_environment("NSYS_EXPLAIN_TEST_NEVER_SET"), std::nullopt);
}

TEST(MpiChoice, FollowsTheVariable) {
  EXPECT_EQ(mpi_choice(environment_of({})), MpiChoice::launcher_decides);
  EXPECT_EQ(mpi_choice(environment_of({{"NSYS_EXPLAIN_MPI", "off"}})), MpiChoice::off);
  EXPECT_EQ(mpi_choice(environment_of({{"NSYS_EXPLAIN_MPI", "on"}})), MpiChoice::on);
  EXPECT_EQ(mpi_choice(environment_of({{"NSYS_EXPLAIN_MPI", "OFF"}})), MpiChoice::invalid);
}

TEST(LaunchWarning, NoneForOneProcess) {
  EXPECT_EQ(launch_warning(environment_of({}), 1), std::nullopt);
}

TEST(LaunchWarning, NoneWhereTheRanksFoundEachOther) {
  EXPECT_EQ(launch_warning(environment_of(kSlurmWithoutPmi), 4), std::nullopt);
  EXPECT_EQ(launch_warning(environment_of({{"OMPI_COMM_WORLD_SIZE", "2"}}), 2), std::nullopt);
}

TEST(LaunchWarning, SlurmTasksThatDoNotKnowEachOther) {
  const auto warning = launch_warning(environment_of(kSlurmWithoutPmi), 1);
  EXPECT_THAT(warning, Optional(HasSubstr("SLURM_STEP_NUM_TASKS says that 4 tasks were started")));
  EXPECT_THAT(warning, Optional(HasSubstr("srun --mpi=pmix or with mpirun")));
}

TEST(LaunchWarning, BatchScriptThatForgotTheLauncher) {
  const auto warning = launch_warning(environment_of({{"SLURM_JOB_ID", "17"}, {"SLURM_NTASKS", "8"}}), 1);
  EXPECT_THAT(warning, Optional(HasSubstr("8 tasks belong to this job")));
  EXPECT_THAT(warning, Optional(HasSubstr("srun --mpi=pmix")));
}

TEST(LaunchWarning, NoneForAStepOfOneTaskInALargerJob) {
  EXPECT_EQ(launch_warning(environment_of({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}}), 1), std::nullopt);
}

TEST(LaunchWarning, MpirunOfAnotherMpi) {
  // The launcher's processes each initialise their own MPI and see a world of one.
  EXPECT_THAT(launch_warning(environment_of({{"OMPI_COMM_WORLD_SIZE", "4"}}), 1),
              Optional(HasSubstr("the MPI library that this program was built with")));
  EXPECT_THAT(launch_warning(environment_of({{"PMI_SIZE", "4"}}), 1), Optional(HasSubstr("PMI_SIZE says that 4")));
}

TEST(LaunchWarning, SwitchedOffUnderALauncher) {
  const auto warning = launch_warning(environment_of({{"OMPI_COMM_WORLD_SIZE", "4"}, {"NSYS_EXPLAIN_MPI", "off"}}), 1);
  EXPECT_THAT(warning, Optional(HasSubstr("unset NSYS_EXPLAIN_MPI")));
  // Where only one process was started, the user asked for exactly this.
  EXPECT_EQ(launch_warning(environment_of({{"SLURM_NTASKS", "8"}, {"NSYS_EXPLAIN_MPI", "off"}}), 1), std::nullopt);
}

TEST(LaunchWarning, IgnoresWhatIsNotANumber) {
  for (const char* value : {"", "many", "4x", "-4", "99999999999999999999", "0", "1"}) {
    EXPECT_EQ(launch_warning(environment_of({{"SLURM_NTASKS", value}}), 1), std::nullopt) << value;
  }
}

}  // namespace
}  // namespace nsys_explain::exchange
