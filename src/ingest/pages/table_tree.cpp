#include "ingest/pages/table_tree.hpp"

#include "ingest/pages/bytes.hpp"

namespace nsys_explain::ingest::pages {
namespace {

constexpr std::uint8_t interior_page = 0x05, leaf_page = 0x0D;
constexpr int deepest = 20;  // SQLite's own limit; a cycle would have no depth

class TreeWalk {
 public:
  TreeWalk(const PageFile& file, PagesMet& met) : file_(file), met_(met), pages_(deepest + 1) {}

  std::vector<Leaf> run(std::uint32_t root) {
    const int depth = depth_of(root);
    descend(root, depth, std::numeric_limits<std::int64_t>::max());
    return std::move(leaves_);
  }

 private:
  const std::uint8_t* load(std::uint32_t page, int level) {
    auto& bytes = pages_[static_cast<std::size_t>(level)];
    bytes.resize(file_.page_bytes());
    file_.read(page, 1, bytes.data());
    return bytes.data();
  }

  /// Levels above the leaves, by way of the children on the right.
  int depth_of(std::uint32_t page) {
    for (int depth = 0; depth <= deepest; ++depth) {
      const std::uint8_t* header = load(page, 0) + page_header_at(page);
      if (header[0] == leaf_page) return depth;
      if (header[0] != interior_page) throw PageDamage("not a page of a rowid table", page);
      page = load_be32(header + 8);
    }
    throw PageDamage("the tree is too deep", page);
  }

  void descend(std::uint32_t page, int levels, std::int64_t last) {
    met_.add(page);
    if (levels == 0) {
      leaves_.push_back({page, after_, last});
      after_ = last;
      return;
    }
    const std::uint8_t* bytes = load(page, levels);
    const std::uint8_t* header = bytes + page_header_at(page);
    if (header[0] != interior_page) throw PageDamage("not an interior page of a rowid table", page);
    const std::uint32_t cells = load_be16(header + 3), pointers = page_header_at(page) + 12,
                        usable = file_.usable_bytes();
    // Page 1 has less room than others: its only child may not fit into it.
    if ((cells == 0 && page != 1) || cells > most_cells(file_)) throw PageDamage("impossible number of cells", page);
    std::uint64_t cell_bytes = 0;
    for (std::uint32_t i = 0; i < cells; ++i) {
      const std::uint32_t cell = load_be16(bytes + pointers + std::size_t{2} * i);
      if (cell < pointers + 2 * cells || cell + 5 > usable) throw PageDamage("bad cell pointer", page);
      std::uint64_t key = 0;
      const std::size_t key_bytes = read_varint(bytes + cell + 4, bytes + usable, key);
      if (key_bytes == 0) throw PageDamage("a cell runs past its page", page);
      cell_bytes += 4 + key_bytes;
      const auto greatest = static_cast<std::int64_t>(key);
      if (greatest <= after_ || greatest > last) throw PageDamage("rowids out of order", page);
      descend(load_be32(bytes + cell), levels - 1, greatest);
    }
    require_whole_content(file_, page, bytes, cell_bytes);
    descend(load_be32(header + 8), levels - 1, last);
  }

  const PageFile& file_;
  PagesMet& met_;
  std::vector<std::vector<std::uint8_t>> pages_;  ///< the page being walked on each level
  std::vector<Leaf> leaves_;
  std::int64_t after_ = std::numeric_limits<std::int64_t>::min();
};

}  // namespace

void PagesMet::add(std::uint32_t page) {
  if (page < 1 || page >= met_.size()) throw PageDamage("the file has no such page", page);
  const bool is_of_another = owners_[page] != 0 && owners_[page] != root_page_;
  if (met_[page] || is_of_another) throw PageDamage("a page is used twice", page);
  met_[page] = true;
  owners_[page] = root_page_;
}

std::vector<Leaf> find_leaves(const PageFile& file, std::uint32_t root_page, PagesMet& met) {
  return TreeWalk(file, met).run(root_page);
}

std::vector<LeafRun> divide_into_runs(const std::vector<Leaf>& leaves, std::uint32_t page_bytes,
                                      std::uint32_t window_bytes) {
  constexpr std::uint32_t widest_gap = 8;  // reading over pages of others is cheaper than another call
  const std::uint32_t most_pages = window_bytes / page_bytes;
  std::vector<LeafRun> runs;
  std::uint32_t first_page = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::uint32_t page = leaves[i].page;
    const bool continues = !runs.empty() && page > leaves[i - 1].page && page - leaves[i - 1].page <= widest_gap &&
                           page - first_page < most_pages;
    if (!continues) {
      runs.push_back({i, i});
      first_page = page;
    }
    runs.back().end = i + 1;
  }
  return runs;
}

}  // namespace nsys_explain::ingest::pages
