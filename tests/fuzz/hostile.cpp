#include "fuzz/hostile.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

namespace nsys_explain::hostile {
namespace {

constexpr long hang_after_s = 60;                  // of the processor: a hundred times what an input takes
constexpr unsigned stands_still_after_s = 900;     // by the clock; a busy machine is no hang
constexpr std::uint64_t seeds_of_a_child = 2'000;  // so that its memory says something about few inputs

/// Where a child counts, and its parent looks once the child is gone.
struct Shared {
  Tally tally;
  std::uint64_t next = 0, end = 0;  ///< seeds
};

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// The process ends by a signal where the input takes longer than these; false: it has ended.
void limit_time(bool is_running) {
  const ::itimerval most{{0, 0}, {is_running ? hang_after_s : 0, 0}};
  ::setitimer(ITIMER_PROF, &most, nullptr);
  ::alarm(is_running ? stands_still_after_s : 0);
}

void try_one(const std::function<Trial(std::uint64_t)>& trials, Shared& shared) {
  Tally& tally = shared.tally;
  const std::uint64_t seed = shared.next;
  limit_time(true);
  const double before = processor_seconds();
  Trial trial;
  try {
    trial = trials(seed);
  } catch (const std::exception& error) {
    trial.problem = fmt::format("an exception came out: {}", error.what());
  }
  const double took = processor_seconds() - before;
  limit_time(false);
  ++tally.tried;
  tally.whole_runs += trial.is_whole_run ? 1 : 0;
  tally.refused += trial.is_refused ? 1 : 0;
  tally.seconds += took;
  if (!trial.is_whole_run && took > tally.longest_s) {
    tally.longest_s = took;
    tally.longest_seed = seed;
  }
  if (!trial.problem.empty()) {
    ++tally.wrong;
    std::fprintf(stderr, "WRONG: seed %llu: %.300s\n", static_cast<unsigned long long>(seed), trial.problem.c_str());
  }
}

[[noreturn]] void be_child(const MakeTrials& make, Shared& shared) {
  int code = 0;
  try {
    const auto trials = make();
    for (; shared.next < shared.end; ++shared.next) try_one(trials, shared);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cannot go on: %s\n", error.what());
    code = 3;
  }
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  shared.tally.most_bytes = std::max(shared.tally.most_bytes, std::int64_t{usage.ru_maxrss} * 1024);
  std::fflush(nullptr);
  ::_exit(code);  // what the parent made is the parent's to remove
}

}  // namespace

std::int64_t edge_integer(Draw& draw) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
  const std::int64_t edge = draw.one_of<std::int64_t>(
      {least, least + 1, -(std::int64_t{1} << 62), -(std::int64_t{1} << 32), -1, 0, 1, 2, 255, 65'536,
       (std::int64_t{1} << 31) - 1, std::int64_t{1} << 31, (std::int64_t{1} << 32) - 1, std::int64_t{1} << 32,
       std::int64_t{1} << 53, 1'000'000'000'000'000'000, std::int64_t{1} << 62, most - 1, most});
  if (!draw.percent(20)) return edge;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(edge) + draw.below(2'000) - 1'000);
}

std::string edge_text(Draw& draw) {
  static const std::vector<std::string> texts = {
      "",
      " ",
      "9223372036854775808",
      "-9223372036854775809",
      "1e400",
      "nan",
      "0x10",
      "{",
      "{}",
      "[[[[[[[[",
      R"({"comm": 1e999, "rank": -1, "nRanks": 99999999999999999999})",
      R"({"Rank":"x","Size":[],"Count":-1})",
      "\xFF\xFE\x80",
      std::string("\0nul", 4),
      "\x1B[2J\x1B]0;t\x07",
      "<script>alert(1)</script>",
      "=HYPERLINK(\"x\")",
      "\"\n\\{label=\"",
      "$(id)`id`%s%n{}",
      "\xE2\x80\xAE"
      "evil",
      "ncclAllReduce",
      "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
      "../../../etc/passwd",
      "step 99999999999999999999"};
  if (draw.percent(3))
    return std::string(draw.one_of<std::size_t>({300, 70'000, 1'000'000}), static_cast<char>('a' + draw.below(26)));
  std::string text = draw.one_of(texts);
  return draw.percent(10) ? text + draw.one_of(texts) : text;
}

std::string damaged_bytes(std::string bytes, Draw& draw) {
  for (std::uint64_t change = 0, changes = 1 + draw.below(4); change < changes; ++change) {
    const std::size_t at = bytes.empty() ? 0 : draw.below(bytes.size());
    const std::size_t some = std::min<std::size_t>(bytes.size() - at, 1 + draw.below(16));
    switch (draw.below(7)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(draw.bits());
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1U << draw.below(8)));
        break;
      case 2:
        bytes.erase(at, some);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, some));
        break;
      case 4:
        bytes.insert(at, edge_text(draw));
        break;
      case 5:
        bytes.insert(at, std::to_string(edge_integer(draw)));
        break;
      default:
        if (bytes.size() >= at + 8) {  // a number, where records and payloads hold some
          const std::int64_t number = edge_integer(draw);
          std::memcpy(&bytes[at], &number, draw.one_of<std::size_t>({1, 2, 4, 8}));
        }
    }
  }
  return draw.percent(5) ? bytes.substr(0, bytes.size() / 2) : bytes;
}

Scratch::Scratch() {
  const std::filesystem::path parent =
      std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
  std::string name = (parent / "nsys-explain-hostile-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
  path_ = name;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Tally try_seeds(const MakeTrials& make, std::uint64_t first, std::uint64_t count, double most_seconds) {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory to share with children");
  Shared& shared = *new (memory) Shared();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  shared.next = first;
  while (shared.next < first + count && std::chrono::duration<double>(Clock::now() - start).count() < most_seconds) {
    shared.end = std::min(first + count, shared.next + seeds_of_a_child);
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("no child process");
    if (child == 0) be_child(make, shared);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    const bool hung = WIFSIGNALED(status) && (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF);
    ++(hung ? shared.tally.hung : shared.tally.crashed);
    ++shared.tally.tried;
    std::fprintf(stderr, "%s: seed %llu (status %d)\n", hung ? "HUNG" : "CRASHED",
                 static_cast<unsigned long long>(shared.next), status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) break;
    ++shared.next;
  }
  const Tally tally = shared.tally;
  ::munmap(memory, sizeof(Shared));
  return tally;
}

}  // namespace nsys_explain::hostile
