#include "collectives/turn_classes.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace nsys_explain::collectives {
namespace {

/// How many of how long.
using Heap = std::pair<std::size_t, Nanoseconds>;

std::vector<TurnOperation> operations_of(Operation operation, std::initializer_list<Heap> heaps) {
  std::vector<TurnOperation> operations;
  for (const auto& [count, transfer_ns] : heaps) {
    TurnOperation one;
    one.operation = operation;
    one.transfer_ns = transfer_ns;
    operations.insert(operations.end(), count, one);
  }
  return operations;
}

std::vector<std::size_t> sizes_of_classes(Operation operation, std::initializer_list<Heap> heaps) {
  std::vector<TurnOperation> operations = operations_of(operation, heaps);
  std::vector<std::size_t> sizes;
  for (const OperationClass& alike : classes_of(operations)) sizes.push_back(alike.members.size());
  return sizes;
}

TEST(ClassesOf, WhatTakesAboutEquallyLongIsOneClass) {
  EXPECT_EQ(sizes_of_classes(Operation::reduce_scatter, {{500, 51'000}, {300, 57'000}}), std::vector<std::size_t>{800});
}

TEST(ClassesOf, AFewBetweenTwoClassesDoNotJoinThem) {
  // Each half a bin of the histogram from the one before.
  const auto between = [](std::size_t each) {
    return sizes_of_classes(Operation::reduce_scatter, {{1000, 51'000},
                                                        {each, 55'000},
                                                        {each, 59'000},
                                                        {each, 63'000},
                                                        {each, 68'000},
                                                        {each, 73'000},
                                                        {each, 78'000},
                                                        {each, 84'000},
                                                        {800, 92'000}});
  };
  const std::vector<std::size_t> parted = between(5);
  ASSERT_EQ(parted.size(), 2U);
  EXPECT_GE(parted[0], 1000U);
  EXPECT_GE(parted[1], 800U);
  EXPECT_EQ(parted[0] + parted[1], 1835U);
  EXPECT_EQ(between(100), std::vector<std::size_t>{2500});
}

TEST(ClassesOf, ExchangesOfLanesInStepSeemToTakeAnyTime) {
  EXPECT_EQ(sizes_of_classes(Operation::send_recv,
                             {{1000, 51'000}, {5, 59'000}, {5, 65'000}, {5, 72'000}, {5, 81'000}, {800, 92'000}})
                .size(),
            1U);
}

}  // namespace
}  // namespace nsys_explain::collectives
