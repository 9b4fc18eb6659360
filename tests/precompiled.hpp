#pragma once

/// What most tests include, parsed once for all of them. Tests still include what they use.
#include "../src/precompiled.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
