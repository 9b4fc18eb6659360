#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory_resource>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace {

/// Flags of the mapping that holds an address ("rd wr ... hg"; proc(5)): hg where huge pages were asked for.
std::string flags_of_mapping(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t first = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> first >> dash >> end && dash == '-') is_it = first <= wanted && wanted < end;
    constexpr std::string_view name = "VmFlags:";
    if (is_it && line.compare(0, name.size(), name) == 0) return line.substr(name.size()) + " ";
  }
  return {};
}

bool asks_for_huge_pages(const std::byte* block, std::size_t bytes) {
  return flags_of_mapping(block + bytes / 2).find(" hg ") != std::string::npos;
}

bool system_has_huge_pages() {
  return std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled");
}

constexpr std::size_t large = 64 << 20;

TEST(LargeBlocks, LieInHugePages) {
  if (!system_has_huge_pages()) GTEST_SKIP() << "this system has no transparent huge pages";
  const std::vector<std::byte> plain(large);
  EXPECT_TRUE(asks_for_huge_pages(plain.data(), large));
  const std::pmr::vector<std::byte> events(large);  // whose resource asks for an alignment
  EXPECT_TRUE(asks_for_huge_pages(events.data(), large));
}

TEST(LargeBlocks, AreAligned) {
  for (const std::size_t alignment : {std::size_t{1}, std::size_t{8}, std::size_t{64}, std::size_t{1} << 21}) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, large}) {
      void* const block = ::operator new(bytes, std::align_val_t(alignment));
      EXPECT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u) << bytes;
      ::operator delete(block, std::align_val_t(alignment));
    }
  }
}

TEST(LargeBlocks, OfNoBytesDiffer) {
  void* const one = ::operator new(0);
  void* const other = ::operator new(0);
  EXPECT_NE(one, other);
  ::operator delete(one);
  ::operator delete(other);
}

int handler_calls = 0;

/// Once asked it gives up, as the standard allows.
void give_up() {
  ++handler_calls;
  std::set_new_handler(nullptr);
}

TEST(LargeBlocks, WithoutRoomAskTheHandlerAndFail) {
  const volatile std::size_t too_much = std::numeric_limits<std::ptrdiff_t>::max() - 4096;
  handler_calls = 0;
  std::set_new_handler(give_up);
  EXPECT_THROW(static_cast<void>(::operator new(too_much)), std::bad_alloc);
  EXPECT_EQ(handler_calls, 1);
  EXPECT_THROW(static_cast<void>(::operator new(too_much, std::align_val_t(64))), std::bad_alloc);
  EXPECT_EQ(::operator new(too_much, std::nothrow), nullptr);
  EXPECT_EQ(::operator new[](too_much, std::align_val_t(64), std::nothrow), nullptr);
}

}  // namespace
