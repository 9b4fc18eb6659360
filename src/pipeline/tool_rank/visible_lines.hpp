#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace nsys_explain::pipeline {

/// While it lives, what is written to a stream goes through report::visible_text, line by line.
class VisibleLines final : private std::streambuf {
 public:
  explicit VisibleLines(std::ostream& stream) : stream_(stream), target_(stream.rdbuf(this)) {}
  ~VisibleLines() final;
  VisibleLines(const VisibleLines&) = delete;
  VisibleLines& operator=(const VisibleLines&) = delete;

 private:
  int_type overflow(int_type byte) final;
  std::streamsize xsputn(const char* bytes, std::streamsize count) final;
  int sync() final;
  void send(std::size_t count);

  std::ostream& stream_;
  std::streambuf* target_;
  std::string pending_;  ///< no whole line yet
};

}  // namespace nsys_explain::pipeline
