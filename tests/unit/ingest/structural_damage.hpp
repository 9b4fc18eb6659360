#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

/// Damage to what holds a SQLite file together, not to the values in it (https://sqlite.org/fileformat2.html, 1.6).
namespace nsys_explain::ingest::testing {

class StructuralDamage {
 public:
  StructuralDamage(std::string& bytes, std::mt19937_64& random)
      : bytes_(bytes), random_(random), page_bytes_(number(16, 2) == 1 ? 65536 : number(16, 2)) {
    for (std::size_t page = 2; page <= page_count(); ++page) {
      if (number(start(page), 1) == 0x05) interior_.push_back(page);
      if (number(start(page), 1) == 0x0D) leaves_.push_back(page);
    }
    trees_ = leaves_;
    trees_.insert(trees_.end(), interior_.begin(), interior_.end());
  }

  /// Does one thing at random and says which.
  std::string inflict() {
    using Kind = std::pair<const char*, void (StructuralDamage::*)()>;
    static constexpr Kind kinds[] = {
        {"child leads elsewhere", &StructuralDamage::mislead_child},
        {"children are one", &StructuralDamage::repeat_child},
        {"last child leads elsewhere", &StructuralDamage::mislead_last_child},
        {"pages change places", &StructuralDamage::swap_pages},
        {"page is a copy of another", &StructuralDamage::copy_page},
        {"rowid differs", &StructuralDamage::change_rowid},
        {"number of cells differs", &StructuralDamage::change_cell_count},
        {"cells change places", &StructuralDamage::swap_cells},
        {"cell is there twice", &StructuralDamage::repeat_cell},
        {"greatest rowid of a child differs", &StructuralDamage::change_greatest_rowid},
        {"page is empty", &StructuralDamage::clear_page},
        {"page is of another kind", &StructuralDamage::change_kind},
        {"schema has fewer tables", &StructuralDamage::shorten_schema},
        {"end is missing", &StructuralDamage::truncate},
        {"end is missing and the header agrees", &StructuralDamage::truncate_with_header},
    };
    const Kind& kind = kinds[below(std::size(kinds))];
    (this->*kind.second)();
    return kind.first;
  }

  /// Lets all children of interior pages, of tables or of indexes, be the next interior page: paths without end.
  void chain_interior_pages(std::uint8_t kind) {
    constexpr std::size_t longest = 18;  // SQLite goes no deeper than 20
    std::vector<std::size_t> chain;
    for (std::size_t page = 2; page <= page_count() && chain.size() < longest; ++page) {
      if (number(start(page), 1) == kind) chain.push_back(page);
    }
    for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
      for (std::size_t cell = 0; cell < cell_count(chain[i]); ++cell) put(cell_at(chain[i], cell), 4, chain[i + 1]);
      put(start(chain[i]) + 8, 4, chain[i + 1]);
    }
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : static_cast<std::size_t>(random_() % limit); }
  std::size_t any_of(const std::vector<std::size_t>& pages) { return pages.empty() ? 2 : pages[below(pages.size())]; }
  std::size_t page_count() const { return bytes_.size() / page_bytes_; }
  std::size_t start(std::size_t page) const { return (page - 1) * page_bytes_; }
  std::size_t cell_count(std::size_t page) const { return number(start(page) + 3, 2); }

  std::size_t number(std::size_t at, std::size_t width) const {
    std::size_t value = 0;
    for (std::size_t i = 0; i < width; ++i) value = value << 8 | static_cast<unsigned char>(bytes_[at + i]);
    return value;
  }
  void put(std::size_t at, std::size_t width, std::size_t value) {
    for (; width > 0; value >>= 8) bytes_[at + --width] = static_cast<char>(value & 0xFF);
  }

  std::size_t pointer_at(std::size_t page, std::size_t cell) const {
    const bool is_leaf = number(start(page), 1) > 0x05;
    return start(page) + (is_leaf ? 8 : 12) + 2 * cell;
  }
  std::size_t cell_at(std::size_t page, std::size_t cell) const {
    return start(page) + number(pointer_at(page, cell), 2);
  }
  std::size_t end_of_number(std::size_t at) const {
    while (number(at, 1) >= 0x80) ++at;
    return at + 1;
  }

  void mislead_child() {
    const std::size_t page = any_of(interior_);
    put(cell_at(page, below(cell_count(page))), 4, below(page_count() + 3));
  }
  void repeat_child() {
    const std::size_t page = any_of(interior_), cells = cell_count(page);
    put(cell_at(page, below(cells)), 4, number(cell_at(page, below(cells)), 4));
  }
  void mislead_last_child() { put(start(any_of(interior_)) + 8, 4, below(page_count() + 3)); }
  void swap_pages() {
    const auto a = static_cast<std::ptrdiff_t>(start(any_of(trees_)));
    const auto b = static_cast<std::ptrdiff_t>(start(any_of(trees_)));
    const auto length = static_cast<std::ptrdiff_t>(page_bytes_);
    if (a != b) std::swap_ranges(bytes_.begin() + a, bytes_.begin() + a + length, bytes_.begin() + b);
  }
  void copy_page() {
    const std::string copy = bytes_.substr(start(any_of(trees_)), page_bytes_);
    bytes_.replace(start(any_of(trees_)), page_bytes_, copy);
  }
  /// Not the last of its page: nobody can know that the last of a table is not what it should be.
  void change_rowid() {
    const std::size_t page = any_of(leaves_);
    if (cell_count(page) < 2) return;
    const std::size_t rowid = end_of_number(cell_at(page, below(cell_count(page) - 1)));
    const std::size_t last = end_of_number(rowid) - 1;
    put(last, 1, number(last, 1) ^ (std::size_t{1} << below(7)));
  }
  void change_cell_count() {
    const std::size_t page = any_of(trees_);
    put(start(page) + 3, 2, below(2 * cell_count(page) + 2));
  }
  void swap_cells() {
    const std::size_t page = any_of(trees_), cells = cell_count(page);
    const std::size_t a = pointer_at(page, below(cells)), b = pointer_at(page, below(cells));
    const std::size_t cell = number(a, 2);
    put(a, 2, number(b, 2));
    put(b, 2, cell);
  }
  void repeat_cell() {
    const std::size_t page = any_of(trees_), cells = cell_count(page);
    put(pointer_at(page, below(cells)), 2, number(pointer_at(page, below(cells)), 2));
  }
  void change_greatest_rowid() {
    const std::size_t page = any_of(interior_);
    const std::size_t last = end_of_number(cell_at(page, below(cell_count(page))) + 4) - 1;
    put(last, 1, number(last, 1) ^ (std::size_t{1} << below(7)));
  }
  void clear_page() { bytes_.replace(start(any_of(trees_)), page_bytes_, page_bytes_, '\0'); }
  void change_kind() { put(start(any_of(trees_)), 1, below(16)); }
  void shorten_schema() {
    const std::size_t leaf = number(100, 1) == 0x05 ? start(number(108, 4)) : 100;
    put(leaf + 3, 2, below(number(leaf + 3, 2)));
  }
  void truncate() { bytes_.resize(page_bytes_ + below(bytes_.size() - page_bytes_)); }
  void truncate_with_header() {
    bytes_.resize(page_bytes_ * (1 + below(page_count() - 1)));
    put(28, 4, page_count());
  }

  std::string& bytes_;
  std::mt19937_64& random_;
  std::size_t page_bytes_;
  std::vector<std::size_t> interior_, leaves_, trees_;
};

}  // namespace nsys_explain::ingest::testing
