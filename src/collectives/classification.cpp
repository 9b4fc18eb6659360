#include "collectives/classification.hpp"

#include <algorithm>
#include <array>

#include "collectives/host_calls.hpp"
#include "model/text.hpp"

namespace nsys_explain::collectives {
namespace {

enum class Name { short_name, demangled_name };

struct TableRow {
  const char* library;
  Name matched;
  const char* pattern;
  Operation operation;
};

constexpr auto table = std::to_array<TableRow>({
#include "collectives/communication_kernels.inc"
});

/// Names can be thousands of characters; what names a communication kernel stands at the front.
constexpr std::size_t longest_matched_name = 512;

const std::vector<Regex>& compiled_patterns() {
  static const std::vector<Regex> patterns = [] {
    std::vector<Regex> compiled;
    compiled.reserve(table.size());
    for (const TableRow& row : table) compiled.emplace_back(row.pattern);
    return compiled;
  }();
  return patterns;
}

/// What a kernel that only the user knows seems to do.
Operation operation_named_in(std::string_view name) {
  struct Word {
    Regex pattern;
    Operation operation;
  };
  static const std::array words{Word{Regex("(?i)all_?reduce"), Operation::all_reduce},
                                Word{Regex("(?i)all_?gather"), Operation::all_gather},
                                Word{Regex("(?i)reduce_?scatter"), Operation::reduce_scatter},
                                Word{Regex("(?i)all_?(to|2)_?all|a2a|dispatch|combine"), Operation::all_to_all},
                                Word{Regex("(?i)broadcast"), Operation::broadcast},
                                Word{Regex("(?i)barrier"), Operation::barrier}};
  const auto word = std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.pattern.occurs_in(name); });
  return word == words.end() ? Operation::unknown : word->operation;
}

}  // namespace

KernelClass classify_kernel(std::string_view short_name, std::string_view demangled_name,
                            std::span<const Regex> of_user) {
  const std::string_view short_part = short_name.substr(0, longest_matched_name);
  // Template and argument lists may name a communication type without the kernel communicating.
  const std::string_view demangled_part = function_name(demangled_name).substr(0, longest_matched_name);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::string_view name = table[i].matched == Name::short_name ? short_part : demangled_part;
    if (compiled_patterns()[i].occurs_in(name)) return {true, table[i].operation, table[i].library};
  }
  const std::string_view full_name = demangled_part.empty() ? short_part : demangled_part;
  for (const Regex& pattern : of_user) {
    if (pattern.occurs_in(full_name)) return {true, operation_named_in(full_name), "--communication-kernels"};
  }
  return {};
}

KernelClasses::KernelClasses(const Trace& trace, std::span<const Regex> of_user)
    : classes_(1), class_of_name_(trace.strings.size(), 0) {
  std::vector<bool> seen(trace.strings.size(), false);
  for (const ProcessTrace& process : trace.processes) {
    for (const MpiCall& call : process.mpi_calls) {
      if (seen[call.name]) continue;
      seen[call.name] = true;
      class_of_name_[call.name] = static_cast<std::uint32_t>(classes_.size());
      classes_.push_back({true, operation_of_mpi(trace.strings[call.name]), "MPI"});
    }
    for (const DeviceTrace& device : process.devices) {
      for (const KernelKind& kind : device.kernel_kinds) {
        const StringIndex key = name_key(kind);
        if (seen[key]) continue;
        seen[key] = true;
        KernelClass found =
            classify_kernel(trace.strings[kind.short_name], trace.strings[kind.demangled_name], of_user);
        if (!found.communication) continue;
        class_of_name_[key] = static_cast<std::uint32_t>(classes_.size());
        classes_.push_back(std::move(found));
      }
    }
  }
}

std::vector<bool> KernelClasses::communication_kinds(const DeviceTrace& device) const {
  std::vector<bool> communication;
  communication.reserve(device.kernel_kinds.size());
  for (const KernelKind& kind : device.kernel_kinds) communication.push_back(of(kind).communication);
  return communication;
}

}  // namespace nsys_explain::collectives
