#include "pipeline/tool_rank/enclosure.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nsys_explain::pipeline {
namespace {

// The kernel's interface (landlock(7)), which headers of older systems lack; numbers are the same on all processors.
constexpr long create_ruleset = 444, add_rule = 445, restrict_self = 446;
constexpr unsigned ask_version = 1, path_beneath = 1;
struct Ruleset {
  std::uint64_t files = 0;
};
struct [[gnu::packed]] PathRule {
  std::uint64_t allowed = 0;
  std::int32_t parent = -1;
};

constexpr std::uint64_t execute = 1U << 0, write_file = 1U << 1, read_file = 1U << 2, read_directory = 1U << 3,
                        truncate = 1U << 14;
constexpr std::uint64_t all_of_version_2 = (1U << 14) - 1;  ///< up to moving files between directories
constexpr std::uint64_t of_files = execute | write_file | read_file | truncate;  ///< those that a file's rule may have

/// 2 is the first with which files can be moved between directories. 3 adds truncation.
constexpr long oldest_version = 2, version_of_truncation = 3;

long landlock_version() {
  return ::syscall(create_ruleset, nullptr, 0, ask_version);
}

std::uint64_t handled_rights() {
  return landlock_version() >= version_of_truncation ? all_of_version_2 | truncate : all_of_version_2;
}

void allow(int rules, int place, std::uint64_t rights) {
  struct stat facts {};
  if (::fstat(place, &facts) != 0) return;
  PathRule rule{rights, place};
  if (!S_ISDIR(facts.st_mode)) rule.allowed &= of_files;
  ::syscall(add_rule, rules, path_beneath, &rule, 0);
}

void allow_path(int rules, const std::string& path, std::uint64_t rights) {
  const int place = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (place < 0) return;
  allow(rules, place, rights);
  ::close(place);
}

/// What this process has loaded: the program and its libraries.
std::set<std::string> loaded_files() {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t start = line.find('/');
    if (start != std::string::npos) files.insert(line.substr(start));
  }
  return files;
}

/// To be started, and to start itself again. Where libraries of the system lie, nothing else does; they may be
/// exchanged while this process runs.
void allow_own_program(int rules) {
  constexpr std::uint64_t to_run = execute | read_file | read_directory;
  for (const char* path : {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/proc/self/exe"}) {
    allow_path(rules, path, to_run);
  }
  for (const std::string& path : loaded_files()) allow_path(rules, path, execute | read_file);
  for (const char* path : {"/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime", "/dev/urandom"}) {
    allow_path(rules, path, read_file);
  }
  allow_path(rules, "/dev/null", read_file | write_file);
}

/// What the process reads of itself: its memory, its descriptors. Not its environment. The kernel knows these files by
/// their number, which they keep while somebody has them open: so this process does, and what it becomes.
void allow_own_facts(int rules) {
  for (const char* path : {"/proc/self/status", "/proc/self/fd"}) {
    const int place = ::open(path, O_PATH);
    if (place >= 0) allow(rules, place, read_file | read_directory);
  }
}

#if defined(__x86_64__)
constexpr std::uint32_t own_processor = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t own_processor = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t own_processor = 0;
#endif

/// New sockets of any kind, and io_uring, which makes them without asking here, are refused with EACCES; so are calls
/// by the interfaces of other processors (32 bits), which have other numbers. What is open already can be used.
void refuse_sockets() {
  if (own_processor == 0) return;
  constexpr std::uint32_t refused = SECCOMP_RET_ERRNO | 13;  // EACCES
  constexpr std::uint32_t x32_bit = 0x40000000, io_uring_setup = 425;
  std::array<sock_filter, 8> steps = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own_processor, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, x32_bit, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, io_uring_setup, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, refused),
  }};
  sock_fprog program{static_cast<unsigned short>(steps.size()), steps.data()};
  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

}  // namespace

std::string Enclosure::missing() {
  const long version = landlock_version();
  if (version >= oldest_version) return "";
  return version < 0 ? "the kernel has no Landlock" : fmt::format("the kernel has version {} of Landlock", version);
}

Enclosure::Enclosure(const std::vector<std::string>& readable, const std::vector<std::string>& writable,
                     bool starts_programs) {
  if (!missing().empty()) return;
  const Ruleset handled{handled_rights()};
  rules_ = static_cast<int>(::syscall(create_ruleset, &handled, sizeof handled, 0));
  if (rules_ < 0) return;
  for (const std::string& path : readable) allow_path(rules_, path, read_file | read_directory);
  for (const std::string& path : writable) allow_path(rules_, path, handled.files & ~execute);
  if (starts_programs) allow_own_program(rules_);
}

Enclosure::~Enclosure() {
  if (rules_ >= 0) ::close(rules_);
}

void Enclosure::enter() const {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
  if (rules_ >= 0) {
    allow_own_facts(rules_);
    ::syscall(restrict_self, rules_, 0);
  }
  refuse_sockets();
}

}  // namespace nsys_explain::pipeline
