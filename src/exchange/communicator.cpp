#include "exchange/communicator.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "exchange/transport.hpp"

namespace nsys_explain::exchange {

Communicator Communicator::serial() {
  return Communicator(make_serial_transport());
}

Communicator::Communicator(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}

int Communicator::rank() const {
  return transport_->rank();
}

int Communicator::size() const {
  return transport_->size();
}

void Communicator::barrier() const {
  transport_->barrier();
}

std::vector<std::int64_t> Communicator::sum(std::span<const std::int64_t> mine) const {
  std::vector<std::int64_t> values(mine.begin(), mine.end());
  transport_->reduce(values, Reduction::sum);
  return values;
}

std::vector<std::int64_t> Communicator::maximum(std::span<const std::int64_t> mine) const {
  std::vector<std::int64_t> values(mine.begin(), mine.end());
  transport_->reduce(values, Reduction::maximum);
  return values;
}

std::int64_t Communicator::sum(std::int64_t mine) const {
  transport_->reduce({&mine, 1}, Reduction::sum);
  return mine;
}

std::int64_t Communicator::maximum(std::int64_t mine) const {
  transport_->reduce({&mine, 1}, Reduction::maximum);
  return mine;
}

std::vector<std::string> Communicator::all_gather_text(std::string_view mine) const {
  const Gathered<char> characters = all_gather(std::span<const char>(mine));
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    const std::span<const char> text = characters.of(r);
    texts.emplace_back(text.begin(), text.end());
  }
  return texts;
}

void Communicator::abort(int exit_code) const {
  transport_->abort(exit_code);
  std::_Exit(exit_code);
}

Gathered<std::byte> Communicator::all_gather_bytes(std::span<const std::byte> mine) const {
  return transport_->all_gather(mine);
}

Gathered<std::byte> Communicator::gather_bytes(std::span<const std::byte> mine) const {
  return transport_->gather(mine);
}

std::vector<std::size_t> Communicator::all_to_all_bytes(const std::vector<std::span<const std::byte>>& outgoing,
                                                        const MakeRoom& make_room) const {
  if (outgoing.size() != static_cast<std::size_t>(size())) {
    // Throwing on one rank would leave the others waiting.
    fmt::print(stderr, "tool rank {}: all_to_all was given {} parts for {} ranks, the run ends here; report it\n",
               rank(), outgoing.size(), size());
    abort(EXIT_FAILURE);
  }
  return transport_->all_to_all(outgoing, make_room);
}

std::vector<std::byte> Communicator::broadcast_bytes(std::span<const std::byte> from_root) const {
  return transport_->broadcast(from_root);
}

}  // namespace nsys_explain::exchange
