#pragma once

#include "ingest/database.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// The values of StringIds, and the dense strings that a Trace keeps of them.
/// StringIds also holds captured output, file contents and paths of the user; only what an event refers to is kept.
class StringTable {
 public:
  /// Reads StringIds. Throws TraceError.
  explicit StringTable(const Database& database);

  /// Raw value of a StringIds id; "" where the id is NULL or unknown.
  std::string_view value(std::int64_t id) const;

  /// Keeps the value of a StringIds id and returns its index; 0 for NULL. An unknown id also gives 0 and is counted.
  StringIndex keep_id(std::int64_t id);
  /// Keeps a text and returns its index; equal texts get equal indices. Of longer ones than `longest_kept` it keeps the
  /// beginning and a hash: a table of the results names its texts in every row.
  StringIndex keep(std::string_view text);
  /// The same for texts that a program may have written anything into: without their secrets (mask_secrets).
  StringIndex keep_id_masked(std::int64_t id);
  StringIndex keep_masked(std::string_view text);

  const std::string& kept(StringIndex index) const { return kept_[index]; }
  std::int64_t unknown_ids() const { return unknown_ids_; }
  std::int64_t repaired_texts() const { return repaired_texts_; }
  std::int64_t shortened_texts() const { return shortened_texts_; }

  /// Bytes. Templates of CUTLASS make demangled names of some 10,000.
  static constexpr std::size_t longest_kept = std::size_t{16} * 1024;

  /// Moves the kept strings out; the table is empty afterwards.
  std::vector<std::string> release() { return std::move(kept_); }

 private:
  static constexpr std::size_t not_found = static_cast<std::size_t>(-1);
  struct Entry {
    std::int64_t id = 0;
    std::size_t offset = 0;
    std::size_t length = 0;
    StringIndex kept = unkept;
  };
  struct Slot {
    std::uint32_t hash = 0;
    StringIndex index = 0;  ///< 0: empty slot (the empty string is never looked up here)
  };
  static constexpr StringIndex unkept = static_cast<StringIndex>(-1);

  std::size_t find(std::int64_t id) const;
  /// The same of an id that is not NULL; counts where there is none.
  std::size_t find_named(std::int64_t id);
  std::string bounded(std::string_view text);
  StringIndex keep_bounded(std::string text);
  /// The text's, or the free one where it belongs.
  Slot& slot_of(std::string_view text);
  void grow();

  std::string bytes_;
  std::vector<Entry> entries_;  ///< sorted by id
  std::vector<std::string> kept_{std::string()};
  std::vector<bool> is_masked_{true};                       ///< by index: has no secrets
  std::map<std::string, StringIndex, std::less<>> masked_;  ///< by text with secrets
  std::vector<Slot> slots_;                                 ///< open addressing, size a power of two
  std::int64_t unknown_ids_ = 0;
  std::int64_t repaired_texts_ = 0;
  std::int64_t shortened_texts_ = 0;
};

}  // namespace nsys_explain::ingest
