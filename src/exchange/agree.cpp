#include "exchange/agree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nsys_explain::exchange {
namespace {

/// What `work` failed with; nothing where it succeeded.
std::optional<std::string> failure_of(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return "there is not enough memory for it; use more tool ranks on more nodes";
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

std::string join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined.append(text).push_back('\0');
  return joined;
}

std::vector<std::string> split(std::string_view joined) {
  std::vector<std::string> texts;
  for (std::size_t end = 0; !joined.empty(); joined.remove_prefix(end + 1)) {
    end = joined.find('\0');
    texts.emplace_back(joined.substr(0, end));
  }
  return texts;
}

/// A short text itself, of a long one what stands around `place`.
std::string excerpt(const std::string& text, std::size_t place) {
  constexpr std::size_t most = 100, before = 40;
  if (text.size() <= most) return text;
  const std::size_t begin = std::min(place - std::min(place, before), text.size() - most);
  return fmt::format("{}{}{}", begin > 0 ? "..." : "", text.substr(begin, most),
                     begin + most < text.size() ? "..." : "");
}

/// Number of the text, this rank's and rank 0's; nothing where all are equal.
std::vector<std::string> difference_from(std::vector<std::string> roots, std::vector<std::string> mine) {
  roots.resize(std::max(roots.size(), mine.size()));
  mine.resize(roots.size());
  const auto [own, root] = std::mismatch(mine.begin(), mine.end(), roots.begin());
  if (own == mine.end()) return {};
  const auto place = static_cast<std::size_t>(
      std::mismatch(own->begin(), own->end(), root->begin(), root->end()).first - own->begin());
  return {std::to_string(own - mine.begin()), excerpt(*own, place), excerpt(*root, place)};
}

}  // namespace

std::optional<Difference> find_difference(const Communicator& communicator, const std::vector<std::string>& mine) {
  const std::string joined = join(mine);
  const std::vector<char> of_root = communicator.broadcast(std::span<const char>(joined));
  const std::vector<std::string> roots = split(std::string_view(of_root.data(), of_root.size()));
  const std::vector<std::string> all = communicator.all_gather_text(join(difference_from(roots, mine)));
  std::optional<Difference> first;
  for (int r = 0; r < communicator.size(); ++r) {
    const std::vector<std::string> found = split(all[static_cast<std::size_t>(r)]);
    if (found.empty()) continue;
    if (!first) first = {r, 0, std::stoul(found[0]), found[1], found[2]};
    ++first->differing_ranks;
  }
  return first;
}

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
