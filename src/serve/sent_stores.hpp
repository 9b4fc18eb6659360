#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "serve/refusal.hpp"
#include "serve/report_tree.hpp"
#include "serve/upload.hpp"

namespace nsys_explain::serve {

/// A store that is gone when it is compared. Its file has a name as long as SentStores lives, since HDF5 asks for it.
struct SentStore {
  std::string name;  ///< as its sender calls it
  Descriptor file;
  std::filesystem::path path;
};

/// Two stores on their way to a disk, to be compared: the fields `before` and `after` of a form.
class SentStores {
 public:
  /// `length`: of the request. Throws Refusal where `directory` has no room for it.
  SentStores(std::filesystem::path directory, UploadRoom& room, std::int64_t length);
  ~SentStores();
  SentStores(const SentStores&) = delete;
  SentStores& operator=(const SentStores&) = delete;

  /// The next part begins. Returns whether to go on; why not, `finish` says.
  bool begin_part(const std::string& field, const std::string& file);
  bool add(std::string_view bytes);
  /// Before, after. Throws Refusal.
  const std::array<SentStore, 2>& finish(bool is_whole) const;

 private:
  bool refuse(Refusal refusal);

  const std::filesystem::path directory_;
  UploadRoom& room_;
  const std::int64_t length_;
  std::array<SentStore, 2> stores_;
  SentStore* current_ = nullptr;
  std::int64_t bytes_ = 0;
  std::optional<Refusal> refusal_;
};

}  // namespace nsys_explain::serve
