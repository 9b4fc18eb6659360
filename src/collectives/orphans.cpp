#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "collectives/inference.hpp"
#include "collectives/program_order.hpp"
#include "collectives/stream_records.hpp"

namespace nsys_explain::collectives {
namespace {

/// Members leave an operation within this of each other.
Nanoseconds together_ns(Operation operation) {
  switch (operation) {
    case Operation::all_gather:
    case Operation::all_to_all:
    case Operation::send_recv:
      return 40'000;  // when they like, by habits of their own
    case Operation::reduce_scatter:
      return 6'000;
    default:
      return 3'000;
  }
}

/// A time at which all members of an operation were still in it.
Nanoseconds before_end_ns(const StreamRecord& record) {
  return record.exit_ns - std::min(together_ns(record.operation->operation), (record.exit_ns - record.enter_ns) / 2);
}

/// Operations that all members leave so soon after each other that those of one stream lie further apart.
bool ends_sharply(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter;
}

/// What the other members of a communicator say to an operation being one of it.
struct Answer {
  std::size_t agreeing = 0;  ///< leave together with it what may be the same
  std::size_t sure = 0;      ///< of these, operations that are named
  std::size_t told = 0;      ///< of these, by their own calls
  std::size_t refuting = 0;  ///< were in another operation of that stream, or leave at another time
  std::size_t silent = 0;    ///< were captured, but no operation of theirs is recorded at the time
  std::size_t members = 1;   ///< of the communicator
  Nanoseconds shortest_ns = std::numeric_limits<Nanoseconds>::max();  ///< the least any of them was in it

  /// All of the communicator were in it, so that the last to enter was in it no longer than it took.
  bool is_complete() const { return agreeing + 1 == members; }
  /// A few leave late, and the record of one may be lost.
  bool is_refuted() const {
    return (refuting > 0 && 3 * refuting > agreeing) || (refuting + silent > 1 && refuting + silent >= agreeing);
  }
};

/// How long operations of one kind take in a communicator.
struct Transfers {
  std::size_t count = 0;
  Nanoseconds shortest_ns = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds longest_ns = 0;  ///< of those that all members recorded; 0: none
};

class OrphanNamer {
 public:
  explicit OrphanNamer(JobRecords job) : job_(std::move(job)), program_(job_) {
    for (std::size_t r = 0; r < job_.ranks.size(); ++r) {
      for (auto& [stream, records] : job_.ranks[r].streams) {
        for (std::size_t position = 0; position < records.size(); ++position) {
          StreamRecord& record = records[position];
          if (!record.is_named() && !record.possible.empty()) orphans_.push_back({&record, r, stream, position});
        }
      }
    }
    // What follows an orphan tells of it.
    std::reverse(orphans_.begin(), orphans_.end());
  }

  std::vector<OperationKey> run() {
    measure_transfers();
    do {
      name_all();
    } while (name_by_program());
    take_back_contested();
    std::vector<OperationKey> keys;
    for (const Orphan& orphan : orphans_) {
      const SampledOperation& operation = *orphan.record->operation;
      const std::uint64_t communicator = orphan.record->communicator;
      if (communicator == 0) continue;
      const bool meets_several =
          operation.operation == Operation::send_recv && !job_.communicators.at(communicator).exchanges_in_pairs;
      keys.push_back({operation.trace_rank, operation.index, communicator, meets_several});
    }
    std::sort(keys.begin(), keys.end(), [](const OperationKey& a, const OperationKey& b) {
      return std::tie(a.trace_rank, a.index) < std::tie(b.trace_rank, b.index);
    });
    return keys;
  }

 private:
  struct Orphan {
    StreamRecord* record;
    std::size_t rank;
    std::uint8_t stream;
    std::size_t position;  ///< in the stream
  };

  /// Calls visit(member, what it did in the communicator's stream when the operation was about to end) for members next
  /// to the operation's that were captured then.
  template <typename Visit>
  void for_each_member(const StreamRecord& record, std::size_t rank, std::uint64_t communicator, Visit visit) {
    constexpr std::size_t most_asked = 16;
    const std::vector<std::size_t>& members = job_.communicators.at(communicator).members;
    const Nanoseconds at_ns = before_end_ns(record);
    const auto own = static_cast<std::size_t>(std::lower_bound(members.begin(), members.end(), rank) - members.begin());
    const std::size_t asked = std::min(most_asked, members.size() - 1);
    for (std::size_t next = 1; next <= asked; ++next) {
      const std::size_t member = members[(own + next) % members.size()];
      if (job_.ranks[member].component != job_.ranks[rank].component || !job_.ranks[member].covers(at_ns)) continue;
      visit(job_.running(member, communicator, at_ns));
    }
  }

  Answer ask(const StreamRecord& record, std::size_t rank, std::uint64_t communicator) {
    const Operation operation = record.operation->operation;
    Answer answer;
    answer.members = job_.communicators.at(communicator).members.size();
    answer.shortest_ns = record.exit_ns - record.enter_ns;
    for_each_member(record, rank, communicator, [&](const StreamRecord* its) {
      if (its == nullptr) {
        answer.silent += ends_sharply(operation) ? 1 : 0;
        return;
      }
      const bool may_be_same = kind_of(*its->operation) == kind_of(*record.operation) && its->may_be_of(communicator);
      const Nanoseconds apart_ns = std::abs(its->exit_ns - record.exit_ns);
      if (may_be_same && apart_ns <= together_ns(operation)) {
        ++answer.agreeing;
        answer.sure += its->is_named() ? 1 : 0;
        answer.told += names_communicator(its->operation->lane) ? 1 : 0;
        answer.shortest_ns = std::min(answer.shortest_ns, its->exit_ns - its->enter_ns);
      } else if (ends_sharply(operation) && (!may_be_same || apart_ns > 3 * together_ns(operation))) {
        ++answer.refuting;
      }
    });
    return answer;
  }

  /// Names what can be named, again and again, since what is named tells more of the others.
  void name_all() {
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (const Orphan& orphan : orphans_) {
        if (!orphan.record->is_named()) is_changed = try_to_name(orphan) || is_changed;
      }
    }
  }

  /// True if the orphan is known better than before. Named members of an operation need this one to be in it, if it is
  /// the only one in the stream at the time; else an orphan goes to the only communicator it may be of, if others
  /// agree.
  bool try_to_name(const Orphan& orphan) {
    StreamRecord& record = *orphan.record;
    std::vector<std::uint64_t> left, wanting;
    bool is_usual = false, is_told = false;
    for (const std::uint64_t communicator : record.possible) {
      const Answer answer = ask(record, orphan.rank, communicator);
      if (answer.is_refuted() || !could_take_so_long(record, communicator, answer)) continue;
      left.push_back(communicator);
      is_usual = answer.agreeing > 0 && takes_as_usual(record, communicator, answer);
      is_told = is_told || answer.told > 0;
      if (answer.sure > 0) wanting.push_back(communicator);
    }
    const bool is_changed = left.size() < record.possible.size();
    record.possible = left;
    const bool is_sharp = ends_sharply(record.operation->operation);
    std::uint64_t only = 0;
    if (is_sharp && wanting.size() == 1)
      only = wanting.front();
    else if (left.size() == 1 && is_usual)
      only = left.front();
    if ((is_sharp && is_told) || record.expected == 0 || record.expected == only) record.communicator = only;
    return is_changed || record.is_named();
  }

  /// From the operations of two members of each communicator, which hold nearly all.
  void measure_transfers() {
    constexpr std::size_t asked = 2;
    for (const auto& [key, communicator] : job_.communicators) {
      for (std::size_t m = 0; m < std::min(asked, communicator.members.size()); ++m) {
        const std::size_t rank = communicator.members[m];
        for (const auto& [stream, records] : job_.ranks[rank].streams) {
          for (const StreamRecord& record : records) {
            if (record.communicator != key || !is_synchronising(record.operation->operation)) continue;
            const Answer answer = ask(record, rank, key);
            if (answer.agreeing == 0) continue;
            Transfers& transfers = transfers_[{key, kind_of(*record.operation)}];
            ++transfers.count;
            transfers.shortest_ns = std::min(transfers.shortest_ns, answer.shortest_ns);
            if (answer.is_complete()) transfers.longest_ns = std::max(transfers.longest_ns, answer.shortest_ns);
          }
        }
      }
    }
  }

  /// Nothing gets faster than ever; and nothing takes far longer than ever once all are there.
  bool could_take_so_long(const StreamRecord& record, std::uint64_t communicator, const Answer& answer) const {
    const Transfers* usual = usual_transfers(record, communicator);
    return usual == nullptr || (!is_too_fast(answer, *usual) && !(answer.is_complete() && is_too_slow(answer, *usual)));
  }

  /// Unlike one of which the last to enter was not recorded.
  bool takes_as_usual(const StreamRecord& record, std::uint64_t communicator, const Answer& answer) const {
    const Transfers* usual = usual_transfers(record, communicator);
    return usual == nullptr || (!is_too_fast(answer, *usual) && !is_too_slow(answer, *usual));
  }

  const Transfers* usual_transfers(const StreamRecord& record, std::uint64_t communicator) const {
    constexpr std::size_t fewest = 4;
    const auto known = transfers_.find({communicator, kind_of(*record.operation)});
    return known != transfers_.end() && known->second.count >= fewest ? &known->second : nullptr;
  }

  static bool is_too_fast(const Answer& answer, const Transfers& usual) {
    constexpr double least_part = 0.7;
    return static_cast<double>(answer.shortest_ns) < least_part * static_cast<double>(usual.shortest_ns);
  }

  static bool is_too_slow(const Answer& answer, const Transfers& usual) {
    constexpr double most_times = 1.5;
    return usual.longest_ns > 0 &&
           static_cast<double>(answer.shortest_ns) > most_times * static_cast<double>(usual.longest_ns);
  }

  /// Of several communicators that an operation may be of, the one of which the program does one here, if others agree.
  /// False if nothing is known better than before.
  bool name_by_program() {
    bool is_changed = false;
    for (const auto& [record, rank, stream, position] : orphans_) {
      if (record->expected != 0) continue;
      record->expected = program_.expected(job_, rank, stream, position);
      is_changed = is_changed || record->expected != 0;
      if (record->expected == 0 || record->is_named()) continue;
      const Answer answer = ask(*record, rank, record->expected);
      if (answer.agreeing > 0 && takes_as_usual(*record, record->expected, answer))
        record->communicator = record->expected;
    }
    return is_changed;
  }

  /// Takes names back that those who were in an operation at the time do not share, or that the program contradicts
  /// where no call tells them.
  void take_back_contested() {
    std::vector<StreamRecord*> contested;
    for (const auto& [record, rank, stream, position] : orphans_) {
      if (!record->is_named()) continue;
      std::size_t sharing = 0, contesting = 0, told = 0;
      for_each_member(*record, rank, record->communicator, [&, own = record](const StreamRecord* its) {
        if (its == nullptr || std::abs(its->exit_ns - own->exit_ns) > together_ns(own->operation->operation)) return;
        ++(its->communicator == own->communicator ? sharing : contesting);
        told += its->operation->lane == own->communicator ? 1 : 0;
      });
      const bool is_unexpected = told == 0 && record->expected != 0 && record->expected != record->communicator;
      if (contesting >= sharing || is_unexpected) contested.push_back(record);
    }
    for (StreamRecord* record : contested) record->communicator = 0;
  }

  JobRecords job_;
  ProgramOrder program_;
  std::vector<Orphan> orphans_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Transfers> transfers_;  ///< by communicator and kind
};

}  // namespace

bool has_orphans(std::span<const SampledOperation> samples) {
  const auto is_named = [](const SampledOperation& operation) { return names_communicator(operation.lane); };
  return std::any_of(samples.begin(), samples.end(), is_named) &&
         !std::all_of(samples.begin(), samples.end(), is_named);
}

std::vector<OperationKey> name_orphans(std::span<const SampledOperation> samples, const RoughClocks& clocks) {
  return OrphanNamer(make_records(samples, clocks)).run();
}

}  // namespace nsys_explain::collectives
