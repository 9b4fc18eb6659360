#include "ingest/kineto/host_ranges.hpp"

#include <utility>

namespace nsys_explain::ingest {

std::string without_address(std::string_view name) {
  constexpr std::string_view mark = " at 0x";
  const std::size_t at = name.find(mark);
  if (at == std::string_view::npos) return std::string(name);
  const std::size_t end = name.find_first_not_of("0123456789abcdefABCDEF", at + mark.size());
  return std::string(name.substr(0, at)) +
         std::string(end == std::string_view::npos ? std::string_view() : name.substr(end));
}

HostRanges::HostRanges(ExportWriter& writer)
    : writer_(writer),
      ranges_(writer.table("host_ranges",
                           "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, collective INTEGER, "
                           "textId INTEGER, jsonText TEXT")),
      contexts_(writer.table("call_contexts", "call INTEGER PRIMARY KEY, chain INTEGER, collective INTEGER")),
      chains_(writer.table("CUDA_CALLCHAINS",
                           "id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, stackDepth INTEGER")) {}

void HostRanges::add_function(std::int64_t start_ns, std::int64_t end_ns, std::int64_t global_tid,
                              const std::string& name) {
  has_functions_ = true;
  writer_.row(ranges_, {start_ns, end_ns, global_tid, writer_.id(without_address(name)), Cell(), Cell(), Cell()});
}

void HostRanges::add_collective(std::int64_t start_ns, std::int64_t end_ns, std::int64_t global_tid,
                                const CollectiveCall& call) {
  writer_.row(ranges_, {start_ns, end_ns, global_tid, Cell(), ++collectives_, writer_.id(call.label),
                        std::string_view(call.payload)});
}

std::int64_t HostRanges::chain_of(const std::vector<Open>& open) {
  constexpr std::size_t most_frames = 64;
  std::vector<std::int64_t> names;
  for (auto one = open.rbegin(); one != open.rend() && names.size() < most_frames; ++one) {
    if (one->name > 0) names.push_back(one->name);
  }
  if (names.empty()) return 0;
  const auto [chain, is_new] = chain_ids_.try_emplace(names, static_cast<std::int64_t>(chain_ids_.size()) + 1);
  std::int64_t depth = 0;
  for (const std::int64_t name : names) {
    if (is_new) writer_.row(chains_, {chain->second, name, writer_.id("Python"), std::int64_t{0}, depth++});
  }
  return chain->second;
}

/// In the order of time by thread; of what begins at the same time the longer comes first, and a call last.
void HostRanges::write_contexts() {
  std::vector<Open> open;
  std::int64_t thread = -1;
  writer_.for_each(
      "SELECT globalTid, start, end, 0, ifnull(nameId, 0), ifnull(collective, 0), 0, rowid FROM host_ranges "
      "UNION ALL SELECT globalTid, start, end, rowid, 0, 0, 1, rowid FROM CUPTI_ACTIVITY_KIND_RUNTIME "
      "ORDER BY 1, 2, 7, 3 DESC, 8",
      [&](const std::vector<std::int64_t>& row) {
        if (std::exchange(thread, row[0]) != row[0]) open.clear();
        std::erase_if(open, [&](const Open& one) { return one.end <= row[1]; });
        if (row[3] == 0) return open.push_back({row[2], row[4], row[5]});
        std::int64_t collective = 0;
        for (const Open& one : open) collective = one.collective > 0 ? one.collective : collective;
        const std::int64_t chain = chain_of(open);
        if (chain > 0 || collective > 0)
          writer_.row(contexts_,
                      {row[3], chain > 0 ? Cell(chain) : Cell(), collective > 0 ? Cell(collective) : Cell()});
      });
}

std::int64_t HostRanges::finish() {
  std::int64_t told = 0;
  if (has_functions_ || collectives_ > 0) write_contexts();
  if (has_functions_)
    writer_.run(
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET callchainId = c.chain FROM call_contexts c "
        "WHERE c.call = CUPTI_ACTIVITY_KIND_RUNTIME.rowid AND c.chain IS NOT NULL");
  if (collectives_ > 0)
    told = writer_.run(
        "UPDATE collective_kernels SET textId = h.textId, jsonText = h.jsonText FROM (SELECT c.collective, "
        "min(k.rowid) AS kernel FROM call_contexts c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.rowid = c.call "
        "JOIN collective_kernels k ON k.correlationId = r.correlationId WHERE c.collective IS NOT NULL "
        "GROUP BY c.collective HAVING count(*) = 1) l JOIN host_ranges h ON h.collective = l.collective "
        "WHERE collective_kernels.rowid = l.kernel AND collective_kernels.textId IS NULL");
  writer_.run("DROP TABLE host_ranges; DROP TABLE call_contexts");
  if (!has_functions_) writer_.run("DROP TABLE CUDA_CALLCHAINS");
  return told;
}

}  // namespace nsys_explain::ingest
