#pragma once

#include <string>
#include <vector>

namespace nsys_explain::pipeline {

/// What a process may reach that reads files of others: should a library find names of other files in them, these
/// cannot be opened. By Landlock, from Linux 5.19 on; sockets are refused by seccomp, on x86-64 and ARM64. Where the
/// kernel has one of them only, or none, the process goes on without.
class Enclosure {
 public:
  /// `readable`, `writable`: files, or directories with all below them; what is writable is readable, too. Those that
  /// are not there are left out. `starts_programs`: the process is to become this program, and may start it again.
  Enclosure(const std::vector<std::string>& readable, const std::vector<std::string>& writable,
            bool starts_programs = false);
  ~Enclosure();
  Enclosure(const Enclosure&) = delete;
  Enclosure& operator=(const Enclosure&) = delete;

  /// For the rest of this process and for all that it starts. Makes system calls only, so it may be called after fork.
  void enter() const;

  /// Why the kernel does not keep processes from files; empty: it does.
  static std::string missing();

 private:
  int rules_ = -1;  ///< a descriptor; -1: no Landlock
};

}  // namespace nsys_explain::pipeline
