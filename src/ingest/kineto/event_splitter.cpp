#include "ingest/kineto/event_splitter.hpp"

namespace nsys_explain::ingest {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool ends_scalar(char c) {
  return c == ',' || c == '}' || c == ']' || is_space(c);
}

}  // namespace

std::string_view ValueScanner::take(std::string_view& text) {
  std::size_t at = 0;
  while (at < text.size() && !is_done_) {
    const char c = text[at];
    if (escaped_) {
      escaped_ = false;
      ++at;
    } else if (in_string_) {
      while (at < text.size() && text[at] != '"' && text[at] != '\\') ++at;
      if (at == text.size()) break;
      escaped_ = text[at] == '\\';
      in_string_ = escaped_;
      is_done_ = !in_string_ && depth_ == 0;
      ++at;
    } else if (is_scalar_) {
      is_done_ = ends_scalar(c);
      if (!is_done_) ++at;
    } else if (c == '"') {
      in_string_ = true;
      ++at;
    } else if (c == '{' || c == '[') {
      ++depth_;
      ++at;
    } else if (depth_ == 0) {
      is_scalar_ = true;
    } else {
      if (c == '}' || c == ']') is_done_ = --depth_ == 0;
      ++at;
    }
  }
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at);
  return taken;
}

void EventSplitter::feed(std::string_view text) {
  while (!text.empty() && place_ != Place::behind && place_ != Place::foreign) {
    if (in_value_) {
      take_value(text);
    } else if (place_ == Place::name) {
      take_name(text);
    } else if (place_ == Place::events) {
      take_event(text);
    } else {
      see_mark(text.front());
      if (!in_value_) text.remove_prefix(1);
    }
  }
}

void EventSplitter::see_mark(char mark) {
  if (is_space(mark)) return;
  if (place_ == Place::before) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (byte_order_mark.find(mark) != std::string_view::npos) return;
    is_bare_ = has_events_ = mark == '[';
    place_ = mark == '{' ? Place::name : mark == '[' ? Place::events : Place::foreign;
  } else if (place_ == Place::colon) {
    place_ = mark == ':' ? Place::value : Place::foreign;
  } else if (mark == '[' && name_ == "traceEvents") {
    has_events_ = true;
    place_ = Place::events;
  } else {
    in_value_ = true;
    scanner_.start();
  }
}

/// The name of the next member, or the end of the trace.
void EventSplitter::take_name(std::string_view& text) {
  const char c = text.front();
  if (c == '"') {
    in_value_ = true;
    scanner_.start();
  } else {
    if (c == '}') place_ = Place::behind;
    if (c != '}' && c != ',' && !is_space(c)) place_ = Place::foreign;
    text.remove_prefix(1);
  }
}

/// The next event, or the end of the array.
void EventSplitter::take_event(std::string_view& text) {
  const char c = text.front();
  if (c == ']') place_ = is_bare_ ? Place::behind : Place::name;
  if (c == ']' || c == ',' || is_space(c)) {
    text.remove_prefix(1);
  } else if (c == '}' || c == ':') {  // no value begins so: without this a scalar of no length
    ++left_out_;
    text.remove_prefix(1);
  } else {
    in_value_ = true;
    scanner_.start();
  }
}

void EventSplitter::take_value(std::string_view& text) {
  const std::string_view taken = scanner_.take(text);
  const std::size_t longest = place_ == Place::events ? longest_event : longest_member;
  is_too_long_ = is_too_long_ || value_.size() + taken.size() > longest;
  if (!is_too_long_) value_ += taken;
  if (scanner_.is_done()) end_value();
}

void EventSplitter::end_value() {
  in_value_ = false;
  if (place_ == Place::name) {
    name_ = is_too_long_ ? "" : value_.substr(1, value_.size() - 2);
    place_ = Place::colon;
  } else if (place_ == Place::value) {
    if (!is_too_long_) handlers_.member(name_, value_);
    place_ = Place::name;
  } else if (is_too_long_ || value_.front() != '{') {
    ++left_out_;
  } else {
    handlers_.event(value_);
  }
  value_.clear();
  is_too_long_ = false;
}

}  // namespace nsys_explain::ingest
