#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace nsys_explain::ingest::pages {

/// A column that a scan wants, by its place in the table's records.
struct WantedColumn {
  std::size_t position = 0;
  std::size_t output = 0;  ///< which column of the batch it fills
  bool is_text = false;    ///< wanted as text or bytes; else as an integer
  bool is_rowid = false;   ///< INTEGER PRIMARY KEY: another name of the rowid, NULL in the record
};

/// What every record of a table has in common.
struct RecordRules {
  std::vector<bool> never_null;    ///< one for each column of the table
  std::size_t fewest_columns = 0;  ///< a record older than the other columns lacks them
};

/// Where an integer lies in records with a certain header. Read without branches: load the 8 bytes that begin at
/// load_offset and end with the value, shift away what precedes it, keep what the mask leaves. NULL and the numbers 0
/// and 1 have no bytes, only the constant; so has what is no integer (NULL's).
struct IntegerField {
  std::int32_t load_offset = 0;
  std::uint32_t shift = 0;
  std::int64_t mask = 0, constant = 0;
};

/// A number with a fraction where an integer is wanted.
struct DoubleField {
  std::size_t place = 0;     ///< in RecordLayout::integers
  std::uint32_t offset = 0;  ///< of the value in the record
};

/// Where a column that is wanted as text lies: any type may be there.
struct TextField {
  std::uint32_t type = 0;    ///< serial type
  std::uint32_t offset = 0;  ///< of the value in the record
  std::uint32_t bytes = 0;
  IntegerField integer;
};

/// What the header of a record says, for the wanted columns only.
struct RecordLayout {
  static constexpr std::size_t longest_kept_header = 64;

  std::array<std::uint8_t, longest_kept_header> header{};
  std::size_t header_bytes = 0;        ///< 0: none yet
  std::uint64_t record_bytes = 0;      ///< by the header
  bool lacks_columns = false;          ///< older than the table's newest column, whose default only the schema knows
  std::uint32_t wanted_bytes = 0;      ///< of the record, to the end of the last wanted value
  std::vector<IntegerField> integers;  ///< of the columns wanted as integers, in their order
  std::vector<DoubleField> doubles;    ///< among them
  std::vector<TextField> texts;        ///< of the columns wanted as text, in their order
};

/// Layouts of the headers seen lately: the rows of a table share few, since a header says only how long each value is.
class RecordLayouts {
 public:
  RecordLayouts(std::vector<WantedColumn> wanted, RecordRules rules)
      : wanted_(std::move(wanted)), rules_(std::move(rules)), kept_(slots) {}

  /// The layout of a record of which `available` bytes can be read (and 8 more without harm). nullptr: the header is
  /// longer than that, or no header of a row of the table. Valid until the next call.
  const RecordLayout* of(const std::uint8_t* record, std::size_t available);

  const std::vector<WantedColumn>& wanted() const { return wanted_; }

 private:
  static constexpr std::size_t slots = 256;

  bool parse(const std::uint8_t* record, std::size_t header_bytes, std::size_t first_type, RecordLayout& layout) const;

  std::vector<WantedColumn> wanted_;  ///< ascending by position
  RecordRules rules_;
  std::vector<RecordLayout> kept_;
  RecordLayout too_long_to_keep_;
  const RecordLayout* latest_ = nullptr;
};

}  // namespace nsys_explain::ingest::pages
