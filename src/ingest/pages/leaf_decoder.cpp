#include "ingest/pages/page_rows.hpp"

#include <algorithm>
#include <cmath>

namespace nsys_explain::ingest::pages {
namespace {

/// Loads of 8 bytes may begin before a value and hashing may read past a header.
constexpr std::size_t margin = 8;

std::int64_t load_integer(const std::uint8_t* record, const IntegerField& field) {
  const auto shifted = static_cast<std::int64_t>(load_be64(record + field.load_offset) << field.shift);
  return ((shifted >> field.shift) & field.mask) | field.constant;
}

std::int64_t integer_of_double(const std::uint8_t* bytes) {
  const std::uint64_t bits = load_be64(bytes);
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return std::abs(value) < 9.2e18 ? static_cast<std::int64_t>(value) : no_time;
}

}  // namespace

void LeafDecoder::decode(std::span<const Leaf> run, PageBatch& batch) {
  window_page_ = run.front().page;
  window_pages_ = run.back().page - window_page_ + 1;
  batch.window.resize(2 * margin + std::size_t{window_pages_} * file_.page_bytes());
  file_.read(window_page_, window_pages_, batch.window.data() + margin);
  batch.extras.clear();
  batch.overflow_pages.clear();
  batch.rows = 0;

  std::size_t rows = 0;
  for (const Leaf& leaf : run) rows += cell_count(leaf, batch);
  integers_.clear();
  rowids_.clear();
  texts_.clear();
  for (const WantedColumn& column : layouts_.wanted()) {
    ColumnValues& values = batch.columns[column.output];
    if (column.is_text) {
      if (values.texts.size() < rows) values.texts.resize(rows);
      texts_.push_back({values.texts.data(), column.is_rowid});
    } else {
      if (values.integers.size() < rows) values.integers.resize(rows);
      integers_.push_back(values.integers.data());
      if (column.is_rowid) rowids_.push_back(values.integers.data());
    }
  }
  for (const Leaf& leaf : run) decode_leaf(leaf, batch);
}

const std::uint8_t* LeafDecoder::page_bytes(std::uint32_t page, const PageBatch& batch) const {
  return batch.window.data() + margin + std::size_t{page - window_page_} * file_.page_bytes();
}

std::uint32_t LeafDecoder::cell_count(const Leaf& leaf, const PageBatch& batch) const {
  const std::uint8_t* header = page_bytes(leaf.page, batch) + page_header_at(leaf.page);
  const std::uint32_t cells = load_be16(header + 3);
  if (header[0] != 0x0D) throw PageDamage("not a leaf of a rowid table", leaf.page);
  if (cells > most_cells(file_) || (cells == 0 && !leaf.is_only_one()))
    throw PageDamage("impossible number of cells", leaf.page);
  return cells;
}

void LeafDecoder::decode_leaf(const Leaf& leaf, PageBatch& batch) {
  const std::uint8_t *const bytes = page_bytes(leaf.page, batch), *const end = bytes + file_.usable_bytes();
  const std::uint32_t cells = cell_count(leaf, batch), pointers = page_header_at(leaf.page) + 8;
  std::int64_t previous = leaf.after;
  std::uint64_t cell_bytes = 0;
  for (std::uint32_t i = 0; i < cells; ++i) {
    const std::uint32_t cell = load_be16(bytes + pointers + std::size_t{2} * i);
    if (cell < pointers + 2 * cells || cell >= file_.usable_bytes()) throw PageDamage("bad cell pointer", leaf.page);
    const std::uint8_t* at = bytes + cell;
    std::uint64_t length = 0, key = 0;
    const std::size_t length_bytes = read_varint(at, end, length);
    const std::size_t key_bytes = length_bytes == 0 ? 0 : read_varint(at + length_bytes, end, key);
    if (key_bytes == 0) throw PageDamage("a cell runs past its page", leaf.page);
    const auto rowid = static_cast<std::int64_t>(key);
    if (rowid <= previous || rowid > leaf.last) throw PageDamage("rowids out of order", leaf.page);
    previous = rowid;
    Record record = find_record(at + length_bytes + key_bytes, end, length, leaf.page);
    const std::size_t pointer_bytes = record.available < length ? 4 : 0;
    cell_bytes +=
        std::max<std::uint64_t>(length_bytes + key_bytes + record.available + pointer_bytes, fewest_cell_bytes);
    if (cell_bytes > file_.usable_bytes()) throw PageDamage("cells overlap", leaf.page);
    if (only_checks_ && record.available < length) {
      batch.extras.clear();
      gather(record, length, leaf.page, batch);
    }
    decode_record(record, rowid, leaf.page, batch);
  }
  require_whole_content(file_, leaf.page, bytes, cell_bytes);
}

/// How much of a long record stays in its leaf: fileformat2, 1.6, "B-tree Pages".
LeafDecoder::Record LeafDecoder::find_record(const std::uint8_t* at, const std::uint8_t* usable_end,
                                             std::uint64_t length, std::uint32_t page) const {
  const std::uint64_t usable = file_.usable_bytes(), most = usable - 35;
  if (length <= most) {
    if (length > static_cast<std::uint64_t>(usable_end - at)) throw PageDamage("a cell runs past its page", page);
    return {at, length, length, 0};
  }
  const std::uint64_t least = (usable - 12) * 32 / 255 - 23;
  const std::uint64_t fitting = least + (length - least) % (usable - 4);
  const std::uint64_t local = fitting <= most ? fitting : least;
  if (local + 4 > static_cast<std::uint64_t>(usable_end - at)) throw PageDamage("a cell runs past its page", page);
  return {at, local, length, load_be32(at + local)};
}

void LeafDecoder::decode_record(Record& record, std::int64_t rowid, std::uint32_t page, PageBatch& batch) {
  const RecordLayout* layout = layouts_.of(record.bytes, record.available);
  if (layout == nullptr && record.available < record.length) {
    gather(record, record.length, page, batch);  // the header itself goes on in overflow pages
    layout = layouts_.of(record.bytes, record.available);
  }
  if (layout == nullptr) throw PageDamage("a record is none of its table", page);
  if (layout->record_bytes != record.length) throw PageDamage("a record is not as long as its header says", page);
  if (layout->lacks_columns && !only_checks_) throw PageSurprise("some of its rows are older than its newest column");
  if (layout->wanted_bytes > record.available) gather(record, layout->wanted_bytes, page, batch);

  const std::size_t row = batch.rows;
  const IntegerField* integer = layout->integers.data();
  for (std::int64_t* const values : integers_) values[row] = load_integer(record.bytes, *integer++);
  for (const DoubleField& field : layout->doubles)
    integers_[field.place][row] = integer_of_double(record.bytes + field.offset);
  for (std::int64_t* const values : rowids_) values[row] = rowid;
  const TextField* text = layout->texts.data();
  for (const TextOutput& output : texts_) {
    output.values[row] = output.is_rowid ? digits_of(rowid, batch) : text_of(*text, record.bytes, batch);
    ++text;
  }
  if (batch.rows == 0) batch.first_rowid = rowid;
  batch.last_rowid = rowid;
  ++batch.rows;
}

/// Follows the chain of overflow pages: each begins with the number of the next.
void LeafDecoder::gather(Record& record, std::uint64_t wanted_bytes, std::uint32_t page, PageBatch& batch) const {
  const std::uint64_t overflow_bytes = file_.usable_bytes() - 4, most_pages = file_.page_count();
  if (record.length / overflow_bytes > most_pages) throw PageDamage("a record is longer than the file", page);
  std::vector<std::uint8_t>& whole = batch.extras.emplace_back(wanted_bytes + 2 * margin);
  std::uint8_t* target = whole.data() + margin;
  std::memcpy(target, record.bytes, record.available);
  std::vector<std::uint8_t> overflow(file_.page_bytes());
  std::uint32_t next = record.overflow_page;
  for (std::uint64_t done = record.available; done < wanted_bytes;) {
    if (next < 2) throw PageDamage("a chain of overflow pages ends early", page);
    if (batch.overflow_pages.size() == most_pages) throw PageDamage("a page is used twice", next);
    batch.overflow_pages.push_back(next);
    file_.read(next, 1, overflow.data());
    const std::uint64_t part = std::min(overflow_bytes, wanted_bytes - done);
    std::memcpy(target + done, overflow.data() + 4, part);
    next = load_be32(overflow.data());
    done += part;
    if (record.length - done <= overflow_bytes - part && next != 0)
      throw PageDamage("a chain of overflow pages goes on after its record", page);
  }
  record.bytes = target;
  record.available = wanted_bytes;
}

std::string_view LeafDecoder::text_of(const TextField& field, const std::uint8_t* record, PageBatch& batch) {
  if (field.type >= 12) return {reinterpret_cast<const char*>(record + field.offset), field.bytes};
  if (field.type == 7) throw PageSurprise("a number with a fraction is wanted as text");
  if (field.bytes == 0 && field.integer.constant == no_time) return {};
  return digits_of(load_integer(record, field.integer), batch);
}

std::string_view LeafDecoder::digits_of(std::int64_t integer, PageBatch& batch) {
  const std::string digits = std::to_string(integer);
  const auto& kept = batch.extras.emplace_back(digits.begin(), digits.end());
  return {reinterpret_cast<const char*>(kept.data()), kept.size()};
}

}  // namespace nsys_explain::ingest::pages
