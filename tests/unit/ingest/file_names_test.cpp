#include "ingest/file_names.hpp"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace nsys_explain::ingest {
namespace {

std::string short_host_name() {
  char name[256] = {};
  EXPECT_EQ(::gethostname(name, sizeof(name) - 1), 0);
  const std::string host = name;
  return host.substr(0, host.find('.'));
}

TEST(Placeholders, AreThoseOfNsys) {
  EXPECT_TRUE(has_placeholder("rank_%q{SLURM_PROCID}.sqlite"));
  EXPECT_TRUE(has_placeholder("%h.sqlite"));
  EXPECT_TRUE(has_placeholder("a%%b"));
  EXPECT_FALSE(has_placeholder("100%.sqlite"));
  EXPECT_FALSE(has_placeholder("50%off"));
  EXPECT_FALSE(has_placeholder("%q{unclosed"));
  EXPECT_FALSE(has_placeholder("plain"));
  EXPECT_FALSE(has_placeholder(""));
}

TEST(Placeholders, HostIsTheFirstLabel) {
  EXPECT_EQ(expand_placeholders("/local/%h/x.sqlite").name, "/local/" + short_host_name() + "/x.sqlite");
}

TEST(Placeholders, VariablesComeFromTheEnvironment) {
  ASSERT_EQ(::setenv("PLACEHOLDER_TEST", "17", 1), 0);
  const ExpandedName expanded = expand_placeholders("r_%q{PLACEHOLDER_TEST}_%q{PLACEHOLDER_TEST}%%.sqlite");
  EXPECT_EQ(expanded.name, "r_17_17%.sqlite");
  EXPECT_FALSE(expanded.unset_variable);
  ::unsetenv("PLACEHOLDER_TEST");
}

TEST(Placeholders, TellWhichVariableIsMissing) {
  ::unsetenv("PLACEHOLDER_ABSENT");
  EXPECT_EQ(expand_placeholders("a%q{PLACEHOLDER_ABSENT}").unset_variable, "PLACEHOLDER_ABSENT");
}

TEST(Placeholders, WhatDiffersByProcessMatchesAnything) {
  EXPECT_EQ(expand_placeholders("report_%p_%n.sqlite").name, "report_*_*.sqlite");
}

}  // namespace

}  // namespace nsys_explain::ingest
