#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nsys_explain {

/// Texts of a column, each distinct one held once and 4 bytes for a row: a long table of a rank names its few kernels
/// and ranges in thousands of rows.
class TextColumn {
 public:
  class Iterator;
  using value_type = std::string;
  using const_reference = const std::string&;
  using const_iterator = Iterator;

  TextColumn() = default;
  TextColumn(std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts) push_back(text);
  }

  /// `codes` are indices into `distinct`, where no text is twice. Throws std::out_of_range where one is none.
  TextColumn(std::vector<std::string> distinct, std::vector<std::uint32_t> codes);

  bool empty() const { return codes_.empty(); }
  std::size_t size() const { return codes_.size(); }
  const std::string& operator[](std::size_t row) const { return distinct_[codes_[row]]; }
  Iterator begin() const;
  Iterator end() const;

  void push_back(std::string_view text);
  /// Rows [first, first + count) of another column.
  void append(const TextColumn& other, std::size_t first, std::size_t count);

  /// Every one that is in some row, in the order of their first rows.
  const std::vector<std::string>& distinct() const { return distinct_; }
  /// Index into `distinct`, by row.
  std::span<const std::uint32_t> codes() const { return codes_; }

  friend bool operator==(const TextColumn& a, const TextColumn& b) {
    return a.distinct_ == b.distinct_ && a.codes_ == b.codes_;
  }

  template <class Archive>
  void save(Archive& archive) const {
    archive(distinct_, codes_);
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(distinct_, codes_);
    slots_.clear();
  }

 private:
  std::uint32_t code_of(std::string_view text);
  /// Where in `slots_` the text is, or would be.
  std::size_t slot_of(std::string_view text) const;
  void rebuild_slots();

  std::vector<std::string> distinct_;
  std::vector<std::uint32_t> codes_;
  std::vector<std::uint32_t> slots_;  ///< by hash, with linear probing: code + 1, 0 where free; empty: not built
};

class TextColumn::Iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = std::string;
  using difference_type = std::ptrdiff_t;
  using pointer = const std::string*;
  using reference = const std::string&;

  Iterator() = default;
  Iterator(const TextColumn& column, std::size_t row) : column_(&column), row_(row) {}
  reference operator*() const { return (*column_)[row_]; }
  pointer operator->() const { return &**this; }
  Iterator& operator++() {
    ++row_;
    return *this;
  }
  Iterator operator++(int) {
    Iterator before = *this;
    ++row_;
    return before;
  }
  friend bool operator==(const Iterator&, const Iterator&) = default;

 private:
  const TextColumn* column_ = nullptr;
  std::size_t row_ = 0;
};

inline TextColumn::Iterator TextColumn::begin() const {
  return {*this, 0};
}

inline TextColumn::Iterator TextColumn::end() const {
  return {*this, size()};
}

}  // namespace nsys_explain
