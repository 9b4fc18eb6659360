#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/kineto/collective_call.hpp"
#include "ingest/kineto/export_writer.hpp"

namespace nsys_explain::ingest {

/// What was open on a thread when it made a CUDA call: functions of Python (recorded with_stack), and the operator that
/// tells a collective. Kept in tables of the export until all calls are known. Memory: the distinct stacks.
class HostRanges {
 public:
  explicit HostRanges(ExportWriter& writer);

  void add_function(std::int64_t start_ns, std::int64_t end_ns, std::int64_t global_tid, const std::string& name);
  void add_collective(std::int64_t start_ns, std::int64_t end_ns, std::int64_t global_tid, const CollectiveCall& call);

  /// Gives each call its stack (callchainId, CUDA_CALLCHAINS), and each row of collective_kernels that tells no
  /// collective that of the operator in which the kernel was launched, if it launched no other one. Number of those.
  std::int64_t finish();

 private:
  struct Open {
    std::int64_t end = 0, name = 0, collective = 0;  ///< 0: none
  };
  std::int64_t chain_of(const std::vector<Open>& open);
  void write_contexts();

  ExportWriter& writer_;
  std::size_t ranges_, contexts_, chains_;
  std::int64_t collectives_ = 0;
  bool has_functions_ = false;
  std::map<std::vector<std::int64_t>, std::int64_t> chain_ids_;  ///< by names, innermost first
};

/// A function's name without the address of the object whose method it is, which differs from call to call:
/// "<built-in method copy_ of Tensor object at 0x7f12>" becomes "<built-in method copy_ of Tensor object>".
std::string without_address(std::string_view name);

}  // namespace nsys_explain::ingest
