#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ingest/rank_resolution.hpp"

namespace nsys_explain::ingest {

/// The whole of `text` as a number from 0 on that fits 32 bits.
std::optional<std::int32_t> parse_rank_number(std::string_view text);

/// True if an entry of the rank map speaks about this trace rank.
bool entry_matches(const RankOverrides::Entry& entry, const std::string& path, std::int32_t process_id,
                   std::int32_t device_id);

}  // namespace nsys_explain::ingest
