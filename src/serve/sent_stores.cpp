#include "serve/sent_stores.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace nsys_explain::serve {
namespace {

constexpr std::size_t longest_shown_name = 60;

Refusal no_disk() {
  return {507, "the disk of temporary files has no room for these stores", "so they cannot be compared",
          "make room there, or run nsys-explain-mpi compare where they lie"};
}

}  // namespace

SentStores::SentStores(std::filesystem::path directory, UploadRoom& room, std::int64_t length)
    : directory_(std::move(directory)), room_(room), length_(length) {
  if (!room_.claim(length)) throw no_disk();
}

SentStores::~SentStores() {
  room_.release(length_);
  std::error_code ignored;
  for (const SentStore& store : stores_)
    if (!store.path.empty()) std::filesystem::remove(store.path, ignored);
}

bool SentStores::refuse(Refusal refusal) {
  if (!refusal_) refusal_ = std::move(refusal);
  return false;
}

bool SentStores::begin_part(const std::string& field, const std::string& file) {
  current_ = field == "before" ? &stores_[0] : field == "after" ? &stores_[1] : nullptr;
  if (current_ == nullptr || current_->file)
    return refuse({400, fmt::format("'{}' is no field of this form, or comes twice", beginning_of(field)),
                   "so nothing is compared", "send the files 'before' and 'after'"});
  std::string path = (directory_ / "store-XXXXXX").string();
  current_->file = Descriptor(::mkostemp(path.data(), O_CLOEXEC));
  if (!current_->file) return refuse(no_disk());
  current_->path = path;
  current_->name = fmt::format("{} ({})", beginning_of(file, longest_shown_name), field);
  return true;
}

bool SentStores::add(std::string_view bytes) {
  bytes_ += static_cast<std::int64_t>(bytes.size());
  if (bytes_ > length_) return refuse(no_disk());
  while (!bytes.empty()) {
    const ssize_t count = ::write(current_->file.number(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return refuse(no_disk());
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

const std::array<SentStore, 2>& SentStores::finish(bool is_whole) const {
  if (refusal_) throw Refusal(*refusal_);
  if (!is_whole || !stores_[0].file || !stores_[1].file)
    throw Refusal(400, "the stores were cut off, came too slowly, or are no form with 'before' and 'after'",
                  "so nothing is compared", "send both again, as curl -F before=@a/store.h5 -F after=@b/store.h5 does");
  return stores_;
}

}  // namespace nsys_explain::serve
