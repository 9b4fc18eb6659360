#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "fuzz/meaning.hpp"
#include "seeds.hpp"

/// Traces of other meaning by seed, in process: no crash, no hang, a report or a documented exit code. With sanitizers,
/// no report of theirs. The same seed and the same inputs in the same order give the same run.
int main(int argc, char** argv) {
  using namespace nsys_explain;
  CLI::App app("Explains jobs whose traces were edited; ends with 1 where one crashed, hung, or had a wrong end");
  std::vector<std::string> directories;
  std::uint64_t first = 1, count = 24, thorough_count = 0;
  double most_seconds = 1e9;
  std::string keep;
  app.add_option("inputs", directories,
                 "Directories, each with the exports or traces of a job, or with such directories")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--first", first, "First seed")->capture_default_str();
  app.add_option("--count", count, "Seeds")->capture_default_str();
  app.add_option("--thorough-count", thorough_count, "Seeds in the tier thorough");
  app.add_option("--seconds", most_seconds, "Begin no more children after so long");
  app.add_option("--keep", keep, "Directory that keeps the inputs of each seed, its edits, and what the run said");
  CLI11_PARSE(app, argc, argv);
  if (thorough_count > 0 && tiers::is_thorough()) count = thorough_count;
  try {
    const std::vector<meaning::Job> jobs = meaning::find_jobs(directories);
    const hostile::Scratch scratch;
    const hostile::MakeTrials make = [&] {
      return [&](std::uint64_t seed) {
        return meaning::explain_edited_job(
            jobs, seed,
            keep.empty() ? scratch.path() / "trial" : std::filesystem::path(keep) / fmt::format("seed_{}", seed));
      };
    };
    const hostile::Tally tally = hostile::try_seeds(make, first, count, most_seconds);
    std::fputs(
        fmt::format(
            "{{\"kind\": \"meaning\", \"first\": {}, \"tried\": {}, \"refused\": {}, \"crashed\": {}, \"hung\": {}, \"wrong\": {}, \"processor_seconds\": {:.1f}, \"longest_s\": {:.3f}, \"longest_seed\": {}, \"most_bytes\": {}}}\n",
            first, tally.tried, tally.refused, tally.crashed, tally.hung, tally.wrong, tally.seconds, tally.longest_s,
            tally.longest_seed, tally.most_bytes)
            .c_str(),
        stdout);
    return tally.is_sound() && tally.tried == count ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
