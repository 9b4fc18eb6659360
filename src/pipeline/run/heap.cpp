#include "pipeline/run/heap.hpp"

#include <algorithm>
#include <limits>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace nsys_explain::pipeline {

#if defined(__GLIBC__)
void keep_freed_memory(int threads) {
  constexpr int never = std::numeric_limits<int>::max();
  constexpr int never_trim = -1;           // mallopt(3): more than 2 GB may be free
  constexpr int threads_at_one_arena = 4;  // more would wait for each other too often
  // What one thread frees, its next analysis takes. Of several, others cut it up meanwhile, and large arrays no longer
  // fit: those return to the system.
  constexpr int large_bytes = 8 << 20;
  ::mallopt(M_ARENA_MAX, std::max(threads / threads_at_one_arena, 1));
  ::mallopt(M_MMAP_THRESHOLD, threads > 1 ? large_bytes : never);
  ::mallopt(M_TRIM_THRESHOLD, never_trim);
}

void return_freed_memory() {
  ::malloc_trim(0);
}
#else
void keep_freed_memory(int) {}
void return_freed_memory() {}
#endif

}  // namespace nsys_explain::pipeline
