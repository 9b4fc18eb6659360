#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// The only module that knows MPI. It moves trivially copyable records between tool ranks and knows no word of the
/// domain.
namespace nsys_explain::exchange {

template <class T>
concept Record = std::is_trivially_copyable_v<T>;

/// Records of all ranks one after another: those of rank r are values[offsets[r] .. offsets[r + 1]).
template <Record T>
struct Gathered {
  std::vector<T> values;
  std::vector<std::size_t> offsets;  ///< size() + 1 entries; none on a rank that is not a receiver (gather: all but 0)

  std::span<const T> of(int rank) const {
    if (offsets.empty()) return {};
    return std::span<const T>(values).subspan(offsets[rank], offsets[rank + 1] - offsets[rank]);
  }
};

/// Returns room for so many bytes.
using MakeRoom = std::function<std::span<std::byte>(std::size_t bytes)>;

/// What a launch gives us: one rank by itself, or a world of MPI ranks. Sizes may exceed 2^31 bytes; transfers are cut.
class Transport;

/// A group of tool ranks that call the same functions in the same order. Copies share one transport.
/// Every member function marked "Collective" must be called by all ranks; none throws on one rank only,
/// because a failing MPI call aborts the whole run with a message.
class Communicator {
 public:
  /// A communicator of one rank that needs no MPI.
  static Communicator serial();

  explicit Communicator(std::shared_ptr<Transport> transport);

  int rank() const;
  int size() const;
  bool is_root() const { return rank() == 0; }

  /// Collective: returns when every rank has called it.
  void barrier() const;

  /// Collective: the records of every rank, on every rank.
  template <Record T>
  Gathered<T> all_gather(std::span<const T> mine) const {
    return from_bytes<T>(all_gather_bytes(to_bytes(mine)));
  }

  /// Collective: the records of every rank on rank 0; the others receive nothing.
  template <Record T>
  Gathered<T> gather(std::span<const T> mine) const {
    return from_bytes<T>(gather_bytes(to_bytes(mine)));
  }

  /// Collective: the same for records that are given away: where they are many, no copies of them lie beside each
  /// other.
  template <Record T>
  Gathered<T> gather(std::vector<T>&& mine) const {
    std::vector<std::vector<T>> outgoing(static_cast<std::size_t>(size()));
    outgoing.front() = std::move(mine);
    return all_to_all(std::move(outgoing));
  }

  /// Collective: outgoing[r] goes to rank r; returns what every rank sent here. outgoing has size() entries, and is
  /// given away: what stays on this rank alone is not copied.
  template <Record T>
  Gathered<T> all_to_all(std::vector<std::vector<T>> outgoing) const {
    Gathered<T> result;
    if (size() == 1 && outgoing.size() == 1) {
      result.values = std::move(outgoing.front());
      result.offsets = {0, result.values.size()};
      return result;
    }
    all_to_all(outgoing, result);
    return result;
  }

  /// Collective: the same for exchanges in rounds. `outgoing` is left as it is, and `received` is overwritten, so that
  /// the memory of both serves again.
  template <Record T>
  void all_to_all(const std::vector<std::vector<T>>& outgoing, Gathered<T>& received) const {
    std::vector<std::span<const std::byte>> views;
    views.reserve(outgoing.size());
    for (const auto& part : outgoing) views.push_back(to_bytes(std::span<const T>(part)));
    received.offsets = all_to_all_bytes(views, [&](std::size_t bytes) {
      received.values.resize(bytes / sizeof(T));
      return std::as_writable_bytes(std::span(received.values));
    });
    for (std::size_t& offset : received.offsets) offset /= sizeof(T);
  }

  /// Collective: rank 0's records on every rank.
  template <Record T>
  std::vector<T> broadcast(std::span<const T> from_root) const {
    return from_bytes<T>({broadcast_bytes(to_bytes(from_root)), {}}).values;
  }

  /// Collective: element-wise over vectors of equal length on every rank; the result is on every rank.
  /// Integers only: sums of integers do not depend on the number or order of ranks.
  std::vector<std::int64_t> sum(std::span<const std::int64_t> mine) const;
  std::vector<std::int64_t> maximum(std::span<const std::int64_t> mine) const;
  std::int64_t sum(std::int64_t mine) const;
  std::int64_t maximum(std::int64_t mine) const;

  /// Collective: one string per rank, on every rank.
  std::vector<std::string> all_gather_text(std::string_view mine) const;

  /// Ends every rank at once with this exit code. For the one case in which the others cannot be told: a dying rank.
  [[noreturn]] void abort(int exit_code) const;

 private:
  template <Record T>
  static std::span<const std::byte> to_bytes(std::span<const T> records) {
    return std::as_bytes(records);
  }

  template <Record T>
  static Gathered<T> from_bytes(const Gathered<std::byte>& raw) {
    Gathered<T> result;
    result.values.resize(raw.values.size() / sizeof(T));
    if (!raw.values.empty()) std::memcpy(result.values.data(), raw.values.data(), raw.values.size());
    result.offsets.reserve(raw.offsets.size());
    for (const std::size_t offset : raw.offsets) result.offsets.push_back(offset / sizeof(T));
    return result;
  }

  Gathered<std::byte> all_gather_bytes(std::span<const std::byte> mine) const;
  Gathered<std::byte> gather_bytes(std::span<const std::byte> mine) const;
  /// Returns offsets by sender into what `make_room(bytes)` returned.
  std::vector<std::size_t> all_to_all_bytes(const std::vector<std::span<const std::byte>>& outgoing,
                                            const MakeRoom& make_room) const;
  std::vector<std::byte> broadcast_bytes(std::span<const std::byte> from_root) const;

  std::shared_ptr<Transport> transport_;
};

}  // namespace nsys_explain::exchange
