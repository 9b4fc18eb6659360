#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "serve/analyses.hpp"
#include "serve/refusal.hpp"
#include "serve/report_tree.hpp"
#include "serve/upload_room.hpp"

namespace nsys_explain::serve {

/// One upload on its way to the disk, part by part: a field `name`, then files. What is not finished is removed.
class Upload {
 public:
  /// Throws Refusal where there is no place for it.
  Upload(Analyses& analyses, UploadRoom& room, std::int64_t most_bytes);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  /// Throws Refusal where so many bytes are too many, or more than the disk has.
  void claim_room(std::int64_t bytes);
  /// The next part begins. Returns whether to go on; why not, `finish` says.
  bool begin_part(const std::string& field, const std::string& file);
  bool add(std::string_view bytes);
  /// Puts it into the queue. Throws Refusal.
  nlohmann::ordered_json finish(bool is_whole);

 private:
  bool refuse(Refusal refusal);
  bool end_part();
  /// Before so many bytes are written: returns whether there is room for them.
  bool keep_room(std::int64_t bytes);

  Analyses& analyses_;
  UploadRoom& room_;
  const std::int64_t most_bytes_;
  AnalysisInput input_;
  std::optional<Refusal> refusal_;
  std::string field_;
  bool has_name_ = false;
  Descriptor file_;
  std::int64_t bytes_ = 0, claimed_bytes_ = 0, unlooked_bytes_ = 0;
};

}  // namespace nsys_explain::serve
