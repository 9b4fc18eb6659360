#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"

namespace nsys_explain::ingest {

/// Finds where one JSON value ends, across pieces of text. It counts brackets and knows strings, and nothing else.
class ValueScanner {
 public:
  void start() { *this = ValueScanner(); }
  /// Takes what belongs to the value off the front of `text`, whose first byte starts or continues it.
  std::string_view take(std::string_view& text);
  bool is_done() const { return is_done_; }

 private:
  std::int64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false, is_scalar_ = false, is_done_ = false;
};

/// Splits a trace in Chrome's format, {"member": value, "traceEvents": [{...}, ...]} or a bare [{...}, ...], into its
/// events and its members, while it is read piece by piece. Memory: one event, or one member.
class EventSplitter {
 public:
  static constexpr std::size_t longest_event = std::size_t{16} << 20U, longest_member = std::size_t{4} << 20U;

  struct Handlers {
    std::function<void(const std::string& object)> event;
    std::function<void(std::string_view name, const std::string& value)> member;  ///< but traceEvents
  };
  explicit EventSplitter(Handlers handlers) : handlers_(std::move(handlers)) {}

  void feed(std::string_view text);

  bool has_events() const { return has_events_; }            ///< the array of events was there
  bool is_whole() const { return place_ == Place::behind; }  ///< the closing bracket was there
  std::int64_t left_out() const { return left_out_; }        ///< elements that are no object, or too long
  bool is_json() const { return place_ != Place::foreign; }  ///< false: it does not begin as JSON does

 private:
  enum class Place : std::uint8_t { before, name, colon, value, events, behind, foreign };

  void take_value(std::string_view& text);
  void take_name(std::string_view& text);
  void take_event(std::string_view& text);
  void see_mark(char mark);
  void end_value();

  Handlers handlers_;
  Place place_ = Place::before;
  ValueScanner scanner_;
  std::string name_, value_;
  bool in_value_ = false, is_too_long_ = false, is_bare_ = false, has_events_ = false;
  std::int64_t left_out_ = 0;
};

/// Whether a file's name is that of a trace in JSON (.json, .json.gz), as PyTorch's profiler writes it.
bool is_kineto_name(std::string_view path);

/// Writes the events of a trace of PyTorch's profiler (Kineto) as an export with the tables of Nsight Systems to
/// `exported`. A file that is cut off is read as far as it goes, and the warnings say so. Memory: one event, and the
/// distinct names. Throws TraceError.
std::vector<Warning> export_kineto(const std::string& trace, const std::string& exported);

}  // namespace nsys_explain::ingest
