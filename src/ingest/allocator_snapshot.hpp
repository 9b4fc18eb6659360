#pragma once

#include <string>
#include <vector>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain::ingest {

/// The tables allocator_summary, allocator_memory and allocator_peak of a snapshot of PyTorch's allocator
/// (torch.cuda.memory._snapshot(), as JSON). The history may have lost its oldest events: levels are counted back from
/// the blocks that are in use in the snapshot. A block is in use until it can be given out again (free_completed).
/// Throws std::runtime_error: problem, why it matters, what to do.
std::vector<Table> allocator_tables(std::string_view json);

/// Without rows.
std::vector<Table> allocator_tables();

}  // namespace nsys_explain::ingest
