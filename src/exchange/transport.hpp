#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exchange/communicator.hpp"

namespace nsys_explain::exchange {

enum class Reduction { sum, maximum };

/// Moves bytes between tool ranks. Every function from barrier() to reduce() is collective and must be called by all
/// ranks in the same order; what each does is described at its namesake in Communicator.
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void barrier() = 0;
  virtual Gathered<std::byte> all_gather(std::span<const std::byte> mine) = 0;
  virtual Gathered<std::byte> gather(std::span<const std::byte> mine) = 0;
  virtual std::vector<std::size_t> all_to_all(const std::vector<std::span<const std::byte>>& outgoing,
                                              const MakeRoom& make_room) = 0;
  virtual std::vector<std::byte> broadcast(std::span<const std::byte> from_root) = 0;
  virtual void reduce(std::span<std::int64_t> values, Reduction reduction) = 0;

  /// Does not return. (GCC ignores [[noreturn]] on virtual functions; Communicator::abort carries it.)
  virtual void abort(int exit_code) = 0;
};

/// One rank by itself: everything is a copy.
std::shared_ptr<Transport> make_serial_transport();

/// MPI counts are int, and some networks fail long before 2 GiB in one message: longer transfers go in pieces.
inline constexpr std::size_t kPieceBytes = std::size_t{256} << 20;

/// Collective over MPI_COMM_WORLD, between MPI_Init and MPI_Finalize: a transport with a message space of its own.
/// No single message is longer than `piece_bytes` (1 .. 2^31 - 1); tests cut small transfers with a small piece.
std::shared_ptr<Transport> make_mpi_transport(std::size_t piece_bytes = kPieceBytes);

}  // namespace nsys_explain::exchange
