#include "collectives/classification.hpp"

#include <algorithm>
#include <array>

#include "nsys_explain/model/regex.hpp"

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

/// Template arguments can be thousands of characters; what names a communication kernel stands at the front.
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

}  // namespace

KernelClass classify_kernel(std::string_view short_name, std::string_view demangled_name) {
  const std::string_view short_part = short_name.substr(0, longest_matched_name);
  // The argument list may name a communication type without the kernel communicating.
  const std::string_view demangled_part =
      demangled_name.substr(0, std::min(demangled_name.find('('), longest_matched_name));
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::string_view name = table[i].matched == Name::short_name ? short_part : demangled_part;
    if (compiled_patterns()[i].occurs_in(name)) return {true, table[i].operation, table[i].library};
  }
  return {};
}

KernelClasses::KernelClasses(const Trace& trace) : classes_(1), class_of_name_(trace.strings.size(), 0) {
  std::vector<bool> seen(trace.strings.size(), false);
  for (const ProcessTrace& process : trace.processes) {
    for (const DeviceTrace& device : process.devices) {
      for (const KernelKind& kind : device.kernel_kinds) {
        const StringIndex key = name_key(kind);
        if (seen[key]) continue;
        seen[key] = true;
        KernelClass found = classify_kernel(trace.strings[kind.short_name], trace.strings[kind.demangled_name]);
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
