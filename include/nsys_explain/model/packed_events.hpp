#pragma once

#include <array>
#include <bit>
#include <compare>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory_resource>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <unordered_map>

#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain {

/// Events of a trace in 16 bytes each: memory and the time of every analysis go by their size. To users it is a vector
/// that hands out its events by value.
///
///     | start, ns after the base (44 bits) | kind (20 bits) | duration (32 bits) | key (32 bits) |
///
/// An event's kind is all that it has beside times and `Key`, as `Event::kind_fields()` tells; a trace repeats a few
/// thousand kinds millions of times. What does not fit (a duration above 4.2 s, a start hours from the first one, the
/// millionth kind) is kept whole, elsewhere, so nothing is lost but memory. The events lie where the default resource
/// of std::pmr puts them (as other arrays with an entry per event do): in memory, or in files that stand in for it.
template <class Event, std::uint32_t Event::*Key>
class PackedEvents {
 public:
  class Iterator;
  using value_type = Event;
  using const_iterator = Iterator;

  PackedEvents() = default;
  PackedEvents(std::initializer_list<Event> events) {
    for (const Event& event : events) push_back(event);
  }

  std::size_t size() const { return packed_.size(); }
  bool empty() const { return packed_.empty(); }
  std::size_t capacity() const { return packed_.capacity(); }
  void reserve(std::size_t events) { packed_.reserve(events); }

  Event operator[](std::size_t i) const { return unpack(packed_[i]); }
  /// Throws std::out_of_range.
  Event at(std::size_t i) const { return unpack(packed_.at(i)); }
  Event front() const { return unpack(packed_.front()); }
  Event back() const { return unpack(packed_.back()); }
  Iterator begin() const { return Iterator(*this, packed_.data()); }
  Iterator end() const { return Iterator(*this, packed_.data() + packed_.size()); }

  void push_back(const Event& event) { packed_.push_back(pack(event)); }
  void pop_back() { packed_.pop_back(); }

  /// Sorts stably; quick where the events are nearly in order.
  template <class Less>
  void sort(const Less& less) {
    sort_nearly_sorted(packed_, [&](const Packed& a, const Packed& b) { return less(unpack(a), unpack(b)); });
  }

  /// Leaves the events for which `keep(event)` holds; asks in their order.
  template <class Keep>
  void keep_if(Keep&& keep) {
    std::size_t kept = 0;
    for (const Packed packed : packed_) {
      if (keep(unpack(packed))) packed_[kept++] = packed;
    }
    packed_.resize(kept);
  }

  /// Calls `change(event)` with what stands for all events of a kind, and with those that are kept whole: it may change
  /// fields of the kind, no others.
  template <class Change>
  void change_kinds(const Change& change) {
    for (Event& kind : kinds_) change(kind);
    for (Event& whole : whole_) change(whole);
    recent_.fill(0);
    number_of_.clear();
    for (std::uint32_t k = 0; k < kinds_.size(); ++k) number_of_.try_emplace(kinds_[k].kind_fields(), k);
  }

 private:
  struct Packed {
    std::uint64_t start_and_kind = 0;
    std::uint32_t duration_ns = 0;
    std::uint32_t key = 0;
  };
  static constexpr int start_bits = 44;
  static constexpr std::uint64_t start_limit = std::uint64_t{1} << start_bits;
  static constexpr std::uint32_t open_end = 0xFFFFFFFF;  ///< a duration that stands for the end no_time
  static constexpr std::uint32_t whole_kind = (std::uint32_t{1} << (64 - start_bits)) - 1;  ///< key: place in whole_

  using Identity = decltype(std::declval<Event>().kind_fields());
  static std::uint64_t hash(const Identity& identity) {
    return std::apply(
        [](const auto&... field) {
          std::uint64_t hash = 0;
          ((hash = std::rotl((hash ^ static_cast<std::uint64_t>(field)) * 0x9E3779B97F4A7C15ULL, 29)), ...);
          return hash;
        },
        identity);
  }
  struct Hash {
    std::size_t operator()(const Identity& identity) const { return hash(identity); }
  };

  /// Written so that what a caller does not look at is not loaded: the kind above all.
  Event unpack(const Packed& packed) const {
    const std::uint64_t number = packed.start_and_kind >> start_bits;
    const Event* kind = nullptr;
    Nanoseconds start_ns = 0, end_ns = 0;
    std::uint32_t key = 0;
    if (number == whole_kind) [[unlikely]] {
      kind = &whole_[packed.key];
      start_ns = kind->start_ns;
      end_ns = kind->end_ns;
      key = kind->*Key;
    } else {
      kind = &kinds_[number];
      // Unsigned, for which overflow is defined: whatever was subtracted is added again.
      start_ns = static_cast<Nanoseconds>(base_ns_ + (packed.start_and_kind & (start_limit - 1)));
      end_ns = packed.duration_ns == open_end ? no_time : start_ns + packed.duration_ns;
      key = packed.key;
    }
    Event event = *kind;
    event.start_ns = start_ns;
    event.end_ns = end_ns;
    event.*Key = key;
    return event;
  }

  Packed pack(const Event& event) {
    const auto start = static_cast<std::uint64_t>(event.start_ns);
    if (kinds_.empty()) base_ns_ = start - start_limit / 4;  // rows come nearly in order: most room is ahead
    const bool has_end = event.end_ns != no_time;
    const std::uint64_t after_base = start - base_ns_;
    const std::uint64_t duration = has_end ? static_cast<std::uint64_t>(event.end_ns) - start : open_end;
    const std::uint32_t kind = number_of_kind(event);
    if (after_base >= start_limit || duration > open_end || (has_end && duration == open_end) || kind >= whole_kind) {
      whole_.push_back(event);
      return {std::uint64_t{whole_kind} << start_bits, 0, static_cast<std::uint32_t>(whole_.size() - 1)};
    }
    return {std::uint64_t{kind} << start_bits | after_base, static_cast<std::uint32_t>(duration), event.*Key};
  }

  std::uint32_t number_of_kind(const Event& event) {
    const Identity wanted = event.kind_fields();
    std::uint32_t& recent = recent_[hash(wanted) >> 56];  // most events are like one that came shortly before
    if (recent < kinds_.size() && kinds_[recent].kind_fields() == wanted) return recent;
    const auto [place, is_new] = number_of_.try_emplace(wanted, static_cast<std::uint32_t>(kinds_.size()));
    if (is_new && kinds_.size() < whole_kind) {
      Event kind = event;
      kind.start_ns = kind.end_ns = 0;
      kind.*Key = 0;
      kinds_.push_back(kind);
    }
    return recent = place->second;
  }

  std::pmr::vector<Packed> packed_;
  std::uint64_t base_ns_ = 0;
  std::vector<Event> kinds_;  ///< with times and keys of 0
  std::vector<Event> whole_;
  std::unordered_map<Identity, std::uint32_t, Hash> number_of_;
  std::array<std::uint32_t, 256> recent_{};
};

template <class Event, std::uint32_t Event::*Key>
class PackedEvents<Event, Key>::Iterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = Event;
  using difference_type = std::ptrdiff_t;
  using reference = Event;
  using pointer = void;

  Iterator() = default;
  Iterator(const PackedEvents& events, const Packed* place) : events_(&events), place_(place) {}

  Event operator*() const { return events_->unpack(*place_); }
  Event operator[](std::ptrdiff_t n) const { return *(*this + n); }
  Iterator& operator++() { return *this += 1; }
  Iterator& operator--() { return *this -= 1; }
  Iterator operator++(int) {
    const Iterator before = *this;
    ++*this;
    return before;
  }
  Iterator operator--(int) {
    const Iterator before = *this;
    --*this;
    return before;
  }
  Iterator& operator+=(std::ptrdiff_t n) {
    place_ += n;
    return *this;
  }
  Iterator& operator-=(std::ptrdiff_t n) { return *this += -n; }
  friend Iterator operator+(Iterator i, std::ptrdiff_t n) { return i += n; }
  friend Iterator operator+(std::ptrdiff_t n, Iterator i) { return i += n; }
  friend Iterator operator-(Iterator i, std::ptrdiff_t n) { return i -= n; }
  friend std::ptrdiff_t operator-(const Iterator& a, const Iterator& b) { return a.place_ - b.place_; }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.place_ == b.place_; }
  friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.place_ <=> b.place_; }

 private:
  const PackedEvents* events_ = nullptr;
  const Packed* place_ = nullptr;
};

}  // namespace nsys_explain
