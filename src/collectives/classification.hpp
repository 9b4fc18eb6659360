#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/regex.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::collectives {

/// What a kernel name tells: whether the kernel communicates with other GPUs, and which operation it starts with.
struct KernelClass {
  bool communication = false;
  Operation operation = Operation::unknown;
  std::string library;  ///< "NCCL", "DeepEP", ..., "--communication-kernels"; empty for compute
};

/// Looks a kernel up in the table of communication kernels (communication_kernels.inc), then among the user's patterns,
/// which are searched in what the kernel is called in its source (model/text.hpp). Stream, algorithm, protocol
/// and reduction are never concluded from a name: NCCL runs many of them under one (docs/input.md).
KernelClass classify_kernel(std::string_view short_name, std::string_view demangled_name,
                            std::span<const Regex> of_user = {});

/// Classes of all kernel names of one trace, so that each distinct name is matched once.
class KernelClasses {
 public:
  /// `of_user`: what the user calls communication (--communication-kernels).
  explicit KernelClasses(const Trace& trace, std::span<const Regex> of_user = {});
  const KernelClass& of(const KernelKind& kind) const { return classes_[class_of_name_[name_key(kind)]]; }
  /// By kernel kind of the device: whether it communicates.
  std::vector<bool> communication_kinds(const DeviceTrace& device) const;

 private:
  static StringIndex name_key(const KernelKind& kind) {
    return kind.demangled_name != 0 ? kind.demangled_name : kind.short_name;
  }
  std::vector<KernelClass> classes_;          ///< [0] is compute
  std::vector<std::uint32_t> class_of_name_;  ///< by name_key
};

}  // namespace nsys_explain::collectives
