#include "exchange/agree.hpp"

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <span>

namespace nsys_explain::exchange {
namespace {

/// What `work` failed with; nothing where it succeeded.
std::optional<std::string> failure_of(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

}  // namespace

void run_agreed(const Communicator& communicator, std::string_view phase, const std::function<void()>& work) {
  const std::optional<std::string> failure = failure_of(work);
  const std::int64_t failed_here = failure ? 1 : 0;
  if (communicator.maximum(failed_here) == 0) return;

  const auto failed = communicator.all_gather(std::span<const std::int64_t>(&failed_here, 1));
  const auto messages = communicator.all_gather_text(failure.value_or(""));
  std::string text(phase);
  const char* separator = ": ";
  for (int r = 0; r < communicator.size(); ++r) {
    if (failed.of(r).front() == 0) continue;
    text += communicator.size() == 1 ? fmt::format("{}{}", separator, messages[r])
                                     : fmt::format("{}tool rank {}: {}", separator, r, messages[r]);
    separator = "; ";
  }
  throw AgreedFailure(text);
}

}  // namespace nsys_explain::exchange
