#include "pipeline/read/kept_exports.hpp"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "pipeline/tool_rank/file_memory.hpp"

namespace nsys_explain::pipeline {
namespace {

/// As many exports of this size have room beside it: other tool ranks of the node make theirs at the same time.
constexpr std::uintmax_t room_for_others = 32;

bool is_worth_its_room(const MadeExport& one) {
  std::error_code failure;
  const std::uintmax_t bytes = std::filesystem::file_size(one.made.path, failure);
  return !failure &&
         bytes <= static_cast<std::uintmax_t>(available_on_disk(one.place.path().string())) / room_for_others;
}

}  // namespace

std::shared_ptr<const MadeExport> KeptExports::of(const std::string& input) {
  if (auto kept = find(input)) return kept;
  const auto made = std::make_shared<MadeExport>();
  made->made = ingest::export_input(input, made->place.path().string(), nsys_);
  if (is_worth_its_room(*made)) {
    const std::scoped_lock lock(mutex_);
    kept_[input] = made;
  }
  return made;
}

bool KeptExports::holds(const std::string& input) const {
  return find(input) != nullptr;
}

std::shared_ptr<const MadeExport> KeptExports::find(const std::string& input) const {
  const std::scoped_lock lock(mutex_);
  const auto kept = kept_.find(input);
  return kept == kept_.end() ? nullptr : kept->second;
}

}  // namespace nsys_explain::pipeline
