#pragma once

#include <iosfwd>

#include "serve/answers.hpp"

namespace nsys_explain::serve {

/// The Model Context Protocol: JSON-RPC 2.0, of which a server with tools needs initialize, ping, tools/list and
/// tools/call. Holds no state of a client.
class McpServer {
 public:
  explicit McpServer(Answers& answers) : answers_(answers) {}

  /// The reply to one message; nothing where it is a notification. Throws nothing.
  std::optional<std::string> reply(const std::string& message);

 private:
  Json result_of(const std::string& method, const Json& parameters);
  Json call(const Json& parameters);
  std::string tool_text(const std::string& tool, const Json& arguments, bool& is_error);

  Answers& answers_;
};

/// One message per line, until the end of the input. Returns the exit code.
int run_mcp(Answers& answers, std::istream& in, std::ostream& out);

}  // namespace nsys_explain::serve
