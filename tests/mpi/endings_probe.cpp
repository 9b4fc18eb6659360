// A program that ends in the way its argument says. tests/mpi/endings.py judges exit code, output and time.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "exchange/session.hpp"

namespace exchange = nsys_explain::exchange;

namespace {

/// The last rank leaves by an exception while the others wait for it.
void throw_past_session(int& argc, char**& argv) {
  const exchange::Session session(argc, argv);
  const exchange::Communicator world = session.world();
  if (world.rank() == world.size() - 1) throw std::runtime_error("nobody agreed on this");
  world.barrier();
}

int end_as_told(std::string_view how, int argc, char** argv) {
  if (how == "throw") {
    try {
      throw_past_session(argc, argv);
    } catch (const std::exception&) {
      return 3;  // reached in a world without MPI
    }
    return 0;
  }
  const exchange::Session session(argc, argv);
  const exchange::Communicator world = session.world();
  const bool last = world.rank() == world.size() - 1;
  if (how == "describe") {
    std::printf("rank %d of %d\n", world.rank(), world.size());
    if (const auto warning = session.launch_warning()) std::printf("warning: %s\n", warning->c_str());
    return 0;
  }
  if (how == "same_code") return 5;
  if (how == "abort") {
    if (last) world.abort(7);
    world.barrier();
  }
  if (how == "unequal_lengths") {
    (void)world.sum(std::vector<std::int64_t>(last ? 2 : 1));
  }
  if (how == "wrong_parts") {
    (void)world.all_to_all(std::vector<std::vector<int>>(static_cast<std::size_t>(world.size()) + (last ? 1 : 0)));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return end_as_told(argc > 1 ? argv[1] : "describe", argc, argv);
}
