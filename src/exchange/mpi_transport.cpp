#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "exchange/transport.hpp"

namespace nsys_explain::exchange {
namespace {

constexpr int kDataTag = 1;

/// Offsets at which consecutive parts of these sizes begin, and the total as the last entry.
std::vector<std::size_t> offsets_of(const std::vector<std::uint64_t>& sizes) {
  std::vector<std::size_t> offsets(sizes.size() + 1, 0);
  for (std::size_t i = 0; i < sizes.size(); ++i) offsets[i + 1] = offsets[i] + sizes[i];
  return offsets;
}

[[noreturn]] void end_run(int exit_code) {
  std::fflush(nullptr);  // MPI_Abort kills the process with its buffers
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(std::size_t piece_bytes);
  ~MpiTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void barrier() override { check(MPI_Barrier(comm_), "MPI_Barrier"); }
  Gathered<std::byte> all_gather(std::span<const std::byte> mine) override;
  Gathered<std::byte> gather(std::span<const std::byte> mine) override;
  std::vector<std::size_t> all_to_all(const std::vector<std::span<const std::byte>>& outgoing,
                                      const MakeRoom& make_room) override;
  std::vector<std::byte> broadcast(std::span<const std::byte> from_root) override;
  void reduce(std::span<std::int64_t> values, Reduction reduction) override;

  void abort(int exit_code) override { end_run(exit_code); }

 private:
  void check(int code, std::string_view call);
  [[noreturn]] void fail(std::string_view problem);

  /// Calls use(begin, count) for consecutive pieces that cover [0, total), each no longer than `longest`.
  template <class Use>
  static void for_each_piece(std::size_t total, std::size_t longest, const Use& use) {
    for (std::size_t begin = 0; begin < total; begin += longest) {
      use(begin, static_cast<int>(std::min(longest, total - begin)));
    }
  }

  void broadcast_pieces(std::span<std::byte> bytes, int from);
  void require_equal_on_all_ranks(std::size_t length);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::size_t piece_bytes_;
};

MpiTransport::MpiTransport(std::size_t piece_bytes) : piece_bytes_(piece_bytes) {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  // Errors come back as codes, so that check() can say what failed and where before the run ends.
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  if (piece_bytes_ < 1 || piece_bytes_ > std::size_t{std::numeric_limits<int>::max()}) {
    fail(fmt::format("a piece of {} bytes does not fit MPI's int counts", piece_bytes_));
  }
}

MpiTransport::~MpiTransport() {
  int finalized = 0;  // a Communicator may outlive its Session
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&comm_);
}

Gathered<std::byte> MpiTransport::all_gather(std::span<const std::byte> mine) {
  const std::uint64_t my_size = mine.size();
  std::vector<std::uint64_t> sizes(size_);
  check(MPI_Allgather(&my_size, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, comm_), "MPI_Allgather");

  Gathered<std::byte> result;
  result.offsets = offsets_of(sizes);
  const std::size_t total = result.offsets.back();
  result.values.resize(total);
  if (total == 0) return result;

  if (total <= piece_bytes_) {
    const std::vector<int> counts(sizes.begin(), sizes.end());
    const std::vector<int> displacements(result.offsets.begin(), result.offsets.end() - 1);
    check(MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, result.values.data(), counts.data(),
                         displacements.data(), MPI_BYTE, comm_),
          "MPI_Allgatherv");
    return result;
  }
  // MPI_Allgatherv's displacements are int, too: each rank in turn sends its part to all, straight into its place.
  std::copy(mine.begin(), mine.end(), result.values.begin() + static_cast<std::ptrdiff_t>(result.offsets[rank_]));
  for (int from = 0; from < size_; ++from) {
    broadcast_pieces(std::span(result.values).subspan(result.offsets[from], sizes[from]), from);
  }
  return result;
}

Gathered<std::byte> MpiTransport::gather(std::span<const std::byte> mine) {
  const std::uint64_t my_size = mine.size();
  std::vector<std::uint64_t> sizes(rank_ == 0 ? size_ : 0);
  check(MPI_Gather(&my_size, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, 0, comm_), "MPI_Gather");

  Gathered<std::byte> result;
  if (rank_ != 0) {
    for_each_piece(mine.size(), piece_bytes_, [&](std::size_t begin, int count) {
      check(MPI_Send(mine.data() + begin, count, MPI_BYTE, 0, kDataTag, comm_), "MPI_Send");
    });
    return result;
  }
  result.offsets = offsets_of(sizes);
  result.values.resize(result.offsets.back());
  std::copy(mine.begin(), mine.end(), result.values.begin());
  for (int from = 1; from < size_; ++from) {
    std::byte* const place = result.values.data() + result.offsets[from];
    for_each_piece(sizes[from], piece_bytes_, [&](std::size_t begin, int count) {
      check(MPI_Recv(place + begin, count, MPI_BYTE, from, kDataTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
    });
  }
  return result;
}

std::vector<std::size_t> MpiTransport::all_to_all(const std::vector<std::span<const std::byte>>& outgoing,
                                                  const MakeRoom& make_room) {
  std::vector<std::uint64_t> sending(size_);
  for (int to = 0; to < size_; ++to) sending[to] = outgoing[to].size();
  std::vector<std::uint64_t> receiving(size_);
  check(MPI_Alltoall(sending.data(), 1, MPI_UINT64_T, receiving.data(), 1, MPI_UINT64_T, comm_), "MPI_Alltoall");

  std::vector<std::size_t> offsets = offsets_of(receiving);
  const std::span<std::byte> room = make_room(offsets.back());

  // Step s sends s ranks ahead and receives from s ranks behind: at every step each rank has one partner per
  // direction, whatever the sizes are, and nothing is buffered. Step 0 is the rank itself.
  std::copy(outgoing[rank_].begin(), outgoing[rank_].end(), room.begin() + static_cast<std::ptrdiff_t>(offsets[rank_]));
  std::vector<MPI_Request> requests;
  for (int step = 1; step < size_; ++step) {
    const int to = (rank_ + step) % size_;
    const int from = (rank_ - step + size_) % size_;
    std::byte* const place = room.data() + offsets[from];
    requests.clear();
    for_each_piece(receiving[from], piece_bytes_, [&](std::size_t begin, int count) {
      check(MPI_Irecv(place + begin, count, MPI_BYTE, from, kDataTag, comm_, &requests.emplace_back()), "MPI_Irecv");
    });
    for_each_piece(sending[to], piece_bytes_, [&](std::size_t begin, int count) {
      check(MPI_Isend(outgoing[to].data() + begin, count, MPI_BYTE, to, kDataTag, comm_, &requests.emplace_back()),
            "MPI_Isend");
    });
    check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }
  return offsets;
}

std::vector<std::byte> MpiTransport::broadcast(std::span<const std::byte> from_root) {
  std::uint64_t total = from_root.size();
  check(MPI_Bcast(&total, 1, MPI_UINT64_T, 0, comm_), "MPI_Bcast");
  std::vector<std::byte> bytes(total);
  if (rank_ == 0) std::copy(from_root.begin(), from_root.end(), bytes.begin());
  broadcast_pieces(bytes, 0);
  return bytes;
}

void MpiTransport::reduce(std::span<std::int64_t> values, Reduction reduction) {
  require_equal_on_all_ranks(values.size());
  const MPI_Op operation = reduction == Reduction::sum ? MPI_SUM : MPI_MAX;
  const std::size_t longest = std::max<std::size_t>(1, piece_bytes_ / sizeof(std::int64_t));
  for_each_piece(values.size(), longest, [&](std::size_t begin, int count) {
    check(MPI_Allreduce(MPI_IN_PLACE, values.data() + begin, count, MPI_INT64_T, operation, comm_), "MPI_Allreduce");
  });
}

void MpiTransport::broadcast_pieces(std::span<std::byte> bytes, int from) {
  for_each_piece(bytes.size(), piece_bytes_, [&](std::size_t begin, int count) {
    check(MPI_Bcast(bytes.data() + begin, count, MPI_BYTE, from, comm_), "MPI_Bcast");
  });
}

/// Unequal lengths would silently mix elements or wait for ever.
void MpiTransport::require_equal_on_all_ranks(std::size_t length) {
  const auto mine = static_cast<std::int64_t>(length);
  std::array<std::int64_t, 2> extremes = {mine, -mine};
  check(MPI_Allreduce(MPI_IN_PLACE, extremes.data(), 2, MPI_INT64_T, MPI_MAX, comm_), "MPI_Allreduce");
  if (extremes[0] != -extremes[1]) {
    fail(fmt::format("an element-wise sum or maximum was called with {} elements here and {} elsewhere", length,
                     extremes[0] == mine ? -extremes[1] : extremes[0]));
  }
}

void MpiTransport::check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail(fmt::format("{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

void MpiTransport::fail(std::string_view problem) {
  fmt::print(
      stderr,
      "tool rank {} of {}: {} (the ranks can no longer agree on anything, the run ends here); if it happens again, report it with the output of mpirun --version\n",
      rank_, size_, problem);
  end_run(EXIT_FAILURE);
}

}  // namespace

std::shared_ptr<Transport> make_mpi_transport(std::size_t piece_bytes) {
  return std::make_shared<MpiTransport>(piece_bytes);
}

}  // namespace nsys_explain::exchange
