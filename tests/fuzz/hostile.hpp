#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

/// What the drivers of hostile inputs share: a draw by seed, values at the edges of their types, and trials in child
/// processes, so that a crash or a hang is counted and the next seed tried.
namespace nsys_explain::hostile {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t below(std::uint64_t end) { return engine_() % end; }
  /// True in so many of a hundred.
  bool percent(std::uint64_t share) { return below(100) < share; }
  template <typename T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }
  std::uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_;  // the standard fixes its numbers, but not those of its distributions
};

/// Integers at the edges of the types that a reader may put them into.
std::int64_t edge_integer(Draw& draw);

/// What may stand in the place of a name: empty, escapes, quotes, numbers, no UTF-8, or very long.
std::string edge_text(Draw& draw);

/// The bytes with a few of them changed, left out, repeated, or put elsewhere.
std::string damaged_bytes(std::string bytes, Draw& draw);

/// A directory of this process; in memory where the system has such a place.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What became of one input.
struct Trial {
  std::string problem;      ///< what must never be; empty: nothing
  bool is_refused = false;  ///< the tool said that it cannot be read
  bool is_whole_run = false;
};

/// What is tried, by its seed; made anew in every child.
using MakeTrials = std::function<std::function<Trial(std::uint64_t seed)>()>;

struct Tally {
  std::uint64_t tried = 0, whole_runs = 0, refused = 0, crashed = 0, hung = 0, wrong = 0;
  double seconds = 0;    ///< of the processor
  double longest_s = 0;  ///< of one input
  std::uint64_t longest_seed = 0;
  std::int64_t most_bytes = 0;  ///< that a child held
  bool is_sound() const { return crashed + hung + wrong == 0; }
};

/// Seeds first, first + 1, ...; `count` of them, or fewer where `most_seconds` are over. Problems go to stderr with
/// their seed.
Tally try_seeds(const MakeTrials& make, std::uint64_t first, std::uint64_t count, double most_seconds);

/// What there is to try.
MakeTrials hostile_rows();     ///< exports whose rows were changed
MakeTrials hostile_files();    ///< files of options: rank maps, NVML, NCU, cuBLAS, Inspector, ...
MakeTrials hostile_records();  ///< records of a cut-off run: damaged, or forged with a right digest

}  // namespace nsys_explain::hostile
