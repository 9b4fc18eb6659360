#include "analysis/tables/side_files.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"
#include "model/text.hpp"

namespace nsys_explain::analysis {
namespace {

std::optional<std::int64_t> leading_integer(std::string_view text, int base = 10) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (parsed.ec != std::errc() || parsed.ptr == text.data() || value < 0) return std::nullopt;
  return value;
}

/// The word after a word: of "rank 3 nranks 8" and "nranks" it is "8".
std::string_view word_after(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || text[at - 1] == ' ';
    const std::size_t end = at + word.size();
    if (!begins || end >= text.size() || text[end] != ' ') continue;
    const std::string_view rest = text.substr(end + 1);
    return rest.substr(0, rest.find(' '));
  }
  return {};
}

std::optional<std::int64_t> number_after(std::string_view text, std::string_view word) {
  return leading_integer(word_after(text, word));
}

/// The number before some words: of "24 coll channels, 0 collnet channels" and " coll channels" it is 24.
std::optional<std::int64_t> number_before(std::string_view text, std::string_view words) {
  const std::size_t end = text.find(words);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  return leading_integer(text.substr(begin, end - begin));
}

/// NCCL's hash as everywhere else in the results; empty where it is none.
std::string hash_text(std::string_view text) {
  if (!text.starts_with("0x")) return {};
  std::uint64_t hash = 0;
  const auto parsed = std::from_chars(text.data() + 2, text.data() + text.size(), hash, 16);
  return parsed.ec == std::errc() ? fmt::format("{:#018x}", hash) : std::string();
}

/// "host:process:thread [device] NCCL INFO message", with whatever a launcher or a logger wrote before it.
struct LogLine {
  std::string_view host, message;
  std::int64_t process_id = -1, thread_id = -1, device = -1;
};

std::optional<LogLine> read_log_line(std::string_view line) {
  constexpr std::string_view mark = " NCCL INFO ";
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  LogLine result;
  result.message = trimmed(line.substr(at + mark.size()));
  std::string_view before = trimmed(line.substr(0, at));
  if (before.ends_with(']')) {
    const std::size_t open = before.rfind('[');
    if (open == std::string_view::npos) return std::nullopt;
    result.device = leading_integer(before.substr(open + 1)).value_or(-1);
    before = trimmed(before.substr(0, open));
  }
  std::array<std::string_view, 3> parts;
  for (std::size_t i = parts.size(); i-- > 0;) {
    const std::size_t colon = i > 0 ? before.rfind(':') : before.find_last_of(": >");
    parts[i] = colon == std::string_view::npos ? before : before.substr(colon + 1);
    if (colon == std::string_view::npos && i > 0) return std::nullopt;
    before = colon == std::string_view::npos ? std::string_view() : before.substr(0, colon);
  }
  const auto process = leading_integer(parts[1]), thread = leading_integer(parts[2]);
  if (!process || !thread) return std::nullopt;
  result.host = parts[0];
  result.process_id = *process;
  result.thread_id = *thread;
  return result;
}

/// "P2P/CUMEM/read" -> "P2P/CUMEM"; "NET/IB/0/GDRDMA" -> "NET/IB/GDRDMA"; "SHM/direct/direct" -> "SHM/direct".
std::string plain_transport(std::string_view text) {
  const std::size_t first = text.find('/');
  const std::size_t second = first == std::string_view::npos ? first : text.find('/', first + 1);
  std::string transport(trimmed(text.substr(0, second)));
  if (text.find("GDRDMA") != std::string_view::npos) transport += "/GDRDMA";
  return transport;
}

/// Old releases write numbers of NCCL_ALGO_* and NCCL_PROTO_*.
std::string choice_name(std::string_view text, std::span<const std::string_view> names) {
  if (const auto number = leading_integer(text))
    return std::cmp_less(*number, names.size()) ? std::string(names[static_cast<std::size_t>(*number)])
                                                : std::string(text);
  std::string name;
  for (const char c : text) name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

class NcclLogReader {
 public:
  explicit NcclLogReader(NcclLog& log) : log_(log) {}

  void read(std::string_view line) {
    if (line.find("NCCL version ") != std::string_view::npos) version_ = word_after(line, "version");
    const auto parsed = read_log_line(line);
    if (!parsed) return;
    const std::string_view message = parsed->message;
    if (message.starts_with("Using network ")) {
      Process& process = processes_[{std::string(parsed->host), parsed->process_id}];
      process.network = trimmed(message.substr(14));
    } else if (message.starts_with("Channel ") && message.find("->") != std::string_view::npos) {
      connection(*parsed);
    } else if (message.find(" Bytes -> Algo ") != std::string_view::npos) {
      choice(message);
    } else if (message.find("comm 0x") != std::string_view::npos) {
      member(*parsed);
    } else if (message.find(" coll channels") != std::string_view::npos) {
      channels(*parsed);
    }
  }

 private:
  struct Process {
    std::string network;
    std::map<std::string, std::string, std::less<>> hash_of;       ///< by the communicator's address
    std::map<std::int64_t, NcclLog::Member> of_thread, of_device;  ///< what it set up last
  };

  Process& process_of(const LogLine& line) { return processes_[{std::string(line.host), line.process_id}]; }

  /// Lines that name communicator and rank. Some name the address only, which another line joins with the hash.
  void member(const LogLine& line) {
    const auto rank = number_after(line.message, "rank");
    if (!rank) return;
    Process& process = process_of(line);
    const std::string address(word_after(line.message, "comm"));
    std::string hash = hash_text(word_after(line.message, "commId"));
    if (hash.empty()) {
      const auto known = process.hash_of.find(address);
      if (known == process.hash_of.end()) return;
      hash = known->second;
    } else {
      process.hash_of[address] = hash;
    }
    const NcclLog::Member key{hash, *rank};
    process.of_thread[line.thread_id] = key;
    process.of_device[line.device] = key;
    LoggedMember& member = log_.members[key];
    member.host = line.host;
    member.process_id = line.process_id;
    member.network = process.network;
    member.version = version_;
    const auto keep = [&](std::int64_t& value, std::string_view word) {
      if (const auto number = number_after(line.message, word)) value = *number;
    };
    keep(member.cuda_device, "cudaDev");
    keep(member.ranks, "nranks");
    keep(member.ranks, "nRanks");
    keep(member.nodes, "nNodes");
  }

  /// The communicator that the line's thread, or at least its device, set up last.
  const NcclLog::Member* member_of(const LogLine& line) {
    const Process& process = process_of(line);
    if (const auto found = process.of_thread.find(line.thread_id); found != process.of_thread.end())
      return &found->second;
    const auto found = process.of_device.find(line.device);
    return found == process.of_device.end() ? nullptr : &found->second;
  }

  void channels(const LogLine& line) {
    const NcclLog::Member* of = member_of(line);
    if (of == nullptr) return;
    LoggedMember& member = log_.members[*of];
    member.collective_channels = number_before(line.message, " coll channels").value_or(-1);
    member.nvls_channels = number_before(line.message, " nvls channels").value_or(-1);
    member.p2p_channels = number_before(line.message, " p2p channels").value_or(-1);
  }

  /// "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "Channel 01 : 8[1000] -> 0[2000] [receive] via NET/IB/0".
  void connection(const LogLine& line) {
    const std::string_view message = line.message;
    const std::size_t colon = message.find(" : "), arrow = message.find(" -> "), via = message.find(" via ");
    if (colon == std::string_view::npos || arrow == std::string_view::npos || via == std::string_view::npos ||
        arrow < colon || via < arrow) {
      return;
    }
    const auto from = leading_integer(trimmed(message.substr(colon + 3))),
               to = leading_integer(message.substr(arrow + 4));
    if (!from || !to) return;
    const NcclLog::Member* of = member_of(line);
    log_.connections[{of == nullptr ? std::string() : of->first, *from, *to, plain_transport(message.substr(via + 5))}]
        .emplace(trimmed(message.substr(8, colon - 8)));
  }

  /// "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}".
  void choice(std::string_view message) {
    constexpr std::array<std::string_view, 7> algorithms{"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                                         "NVLS_TREE", "PAT"};
    constexpr std::array<std::string_view, 3> protocols{"LL", "LL128", "SIMPLE"};
    const std::size_t colon = message.find(':');
    const auto bytes = number_before(message, " Bytes -> Algo ");
    if (!bytes) return;
    const std::string_view operation = colon == std::string_view::npos ? std::string_view() : message.substr(0, colon);
    ++log_.choices[{std::string(operation), *bytes, choice_name(word_after(message, "Algo"), algorithms),
                    choice_name(word_after(message, "proto"), protocols)}];
  }

  NcclLog& log_;
  std::string version_;
  std::map<std::pair<std::string, std::int64_t>, Process> processes_;
};

/// Whether both ends run on one host: 1, 0, or -1 where that is not known.
std::int64_t same_host(const NcclLog& log, const std::string& communicator, std::int64_t a, std::int64_t b) {
  const auto first = log.members.find({communicator, a}), second = log.members.find({communicator, b});
  if (first == log.members.end() || second == log.members.end()) return -1;
  return first->second.host == second->second.host ? 1 : 0;
}

}  // namespace

void add_nccl_log(std::string_view text, NcclLog& log) {
  NcclLogReader reader(log);
  while (!text.empty()) reader.read(trimmed(next_part(text)));
}

std::vector<Table> nccl_log_tables(const NcclLog& log) {
  using enum ColumnKind;
  Table members = make_table({"nccl_members",
                              "Members of communicators as NCCL's own log names them (--nccl-log); -1: not logged",
                              {{"communicator", text, "", "NCCL's hash"},
                               {"rank", integer, "", "in the communicator"},
                               {"ranks", integer, "", "members"},
                               {"nodes", integer, "", ""},
                               {"host", text, "", ""},
                               {"process_id", integer, "", "as the process saw it"},
                               {"cuda_device", integer, "", "CUDA ordinal as the process saw it"},
                               {"nccl_version", text, "", ""},
                               {"network", text, "", "IB, Socket or a plugin"},
                               {"collective_channels", integer, "", ""},
                               {"nvls_channels", integer, "", ""},
                               {"p2p_channels", integer, "", ""}}});
  RowWriter member_row(members);
  for (const auto& [key, m] : log.members) {
    member_row << std::string_view(key.first) << key.second << m.ranks << m.nodes << std::string_view(m.host)
               << m.process_id << m.cuda_device << std::string_view(m.version) << std::string_view(m.network)
               << m.collective_channels << m.nvls_channels << m.p2p_channels;
  }
  Table connections = make_table({"nccl_connections",
                                  "What NCCL connects members by, as its own log says (--nccl-log)",
                                  {{"communicator", text, "", "NCCL's hash; empty: not known"},
                                   {"from_rank", integer, "", "in the communicator"},
                                   {"to_rank", integer, "", "in the communicator"},
                                   {"same_host", integer, "", "1: both ends are on one host; -1: not known"},
                                   {"transport", text, "", "P2P, SHM or NET, and how"},
                                   {"channels", integer, "", ""}}});
  RowWriter connection_row(connections);
  for (const auto& [key, channels] : log.connections) {
    const auto& [communicator, from, to, transport] = key;
    connection_row << std::string_view(communicator) << from << to << same_host(log, communicator, from, to)
                   << std::string_view(transport) << static_cast<std::int64_t>(channels.size());
  }
  Table choices = make_table({"nccl_choices",
                              "Algorithm and protocol that NCCL chose, as its own log says (--nccl-log, TUNING lines)",
                              {{"operation", text, "", "empty: the release does not log it"},
                               {"bytes", integer, "bytes", "of the collective"},
                               {"algorithm", text, "", "RING, TREE, NVLS, ..."},
                               {"protocol", text, "", "LL, LL128 or SIMPLE"},
                               {"count", integer, "", "times logged"}}});
  RowWriter choice_row(choices);
  for (const auto& [key, count] : log.choices) {
    const auto& [operation, bytes, algorithm, protocol] = key;
    choice_row << std::string_view(operation) << bytes << std::string_view(algorithm) << std::string_view(protocol)
               << count;
  }
  return {std::move(members), std::move(connections), std::move(choices)};
}

}  // namespace nsys_explain::analysis
