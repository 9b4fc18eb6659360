#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "fuzz/hostile.hpp"

/// Hostile inputs by seed, in process: no crash, no hang, no wrong exit code. With sanitizers, no report of theirs.
int main(int argc, char** argv) {
  using namespace nsys_explain::hostile;
  const std::map<std::string, MakeTrials> all = {
      {"rows", hostile_rows()}, {"files", hostile_files()}, {"records", hostile_records()}};
  CLI::App app("Tries hostile inputs; ends with 1 where one of them crashed, hung, or had a wrong end");
  std::string kind;
  std::uint64_t first = 1, count = 100;
  double most_seconds = 1e9;
  app.add_option("kind", kind, "rows, files or records")
      ->required()
      ->check(CLI::IsMember({"rows", "files", "records"}));
  app.add_option("--first", first, "First seed")->capture_default_str();
  app.add_option("--count", count, "Seeds")->capture_default_str();
  app.add_option("--seconds", most_seconds, "Begin no more children after so long");
  CLI11_PARSE(app, argc, argv);
  try {
    const Tally tally = try_seeds(all.at(kind), first, count, most_seconds);
    std::fputs(
        fmt::format(
            "{{\"kind\": \"{}\", \"first\": {}, \"tried\": {}, \"whole_runs\": {}, \"refused\": {}, \"crashed\": {}, \"hung\": {}, \"wrong\": {}, \"processor_seconds\": {:.1f}, \"longest_s\": {:.3f}, \"longest_seed\": {}, \"most_bytes\": {}}}\n",
            kind, first, tally.tried, tally.whole_runs, tally.refused, tally.crashed, tally.hung, tally.wrong,
            tally.seconds, tally.longest_s, tally.longest_seed, tally.most_bytes)
            .c_str(),
        stdout);
    return tally.is_sound() && tally.tried > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
