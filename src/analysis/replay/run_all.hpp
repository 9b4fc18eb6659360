#pragma once

#include <functional>
#include <vector>

namespace nsys_explain::analysis {

/// Runs tasks that do not depend on each other, in any order or at once: who composes analyses knows the threads.
using RunAll = std::function<void(const std::vector<std::function<void()>>&)>;

inline void one_after_another(const std::vector<std::function<void()>>& tasks) {
  for (const std::function<void()>& task : tasks) task();
}

}  // namespace nsys_explain::analysis
