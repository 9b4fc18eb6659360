#include "serve/mcp.hpp"

#include <algorithm>
#include <istream>
#include <ostream>

#include <fmt/format.h>

#include "pipeline/tool_rank/own_process.hpp"
#include "serve/refusal.hpp"
#include "serve/tools.hpp"

namespace nsys_explain::serve {
namespace {

constexpr std::array<std::string_view, 4> versions = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
constexpr std::size_t longest_line = 1'000'000;

constexpr const char* instructions =
    "Reports of nsys-explain-mpi: who makes a multi-GPU job slow, and why. Begin with reports, then verdict. Quote figures as they stand and name their rows: 'ranks[5]: wait_ns=1234' is column wait_ns in row 5, counted from 0, of table ranks of store.h5; 'report.json#/verdict: saved_share=0.2' is a value in report.json. Names that end in _ns are nanoseconds, _bytes bytes; a share is a part of 1. A trace rank is a rank of the profiled job. own_lateness_ns is what a trace rank was late by itself; wait_ns is what it waited for others.";

/// An error of JSON-RPC.
struct RpcError {
  int code;
  std::string message;
};

struct Argument {
  const char *name, *type, *description;
  bool is_required;
};

struct Tool {
  const char *name, *description;
  std::vector<Argument> arguments;
};

const std::vector<Tool>& tools() {
  static const Argument report{"report", "string",
                               "Name of the report, as tool reports has it; not needed where there is one only", false};
  static const std::vector<Tool> all = {
      {"reports",
       "Lists the reports with their verdicts, the latest first; to compare with yesterday, take two runs of one job from it",
       {{"find", "string", "Only reports whose name or verdict has this text", false},
        {"job", "string", "Only runs of this job, as the list has it", false},
        {"order", "string", "date, name, saving, severity or step; -saving sorts the largest first", false},
        {"limit", "integer", "Most reports; 20 where left out", false},
        {"offset", "integer", "Reports to leave out first", false}}},
      {"verdict", "Who makes the job slow, what mending saves, and the most important findings", {report}},
      {"findings", "All findings with evidence and what to do", {report}},
      {"explain_rank",
       "What is known of one trace rank: place, verdict, times, what it did differently",
       {report, {"trace_rank", "integer", "A rank of the profiled job", true}}},
      {"explain_instance",
       "One collective: its members, the last to enter first",
       {report, {"instance", "integer", "Number of the instance, as table collective_instances has it", true}}},
      {"table",
       "Rows of any table; without a table, which there are",
       {report,
        {"table", "string", "Name of a table", false},
        {"columns", "string", "Columns with commas between them; all where left out", false},
        {"where", "array", "Conditions that must all hold, such as trace_rank=5, wait_ns>=1000 or name~gemm (contains)",
         false},
        {"order", "string", "Columns to sort by; -wait_ns sorts the largest first", false},
        {"limit", "integer", "Most rows", false},
        {"offset", "integer", "Rows to leave out first", false}}},
      {"compare",
       "What changed from one report to another, beyond the noise",
       {{"before", "string", "Name of the earlier report", true},
        {"after", "string", "Name of the later report", true}}},
      {"what_if", "What the job would save if something was mended, by replay", {report}},
      {"capture_advice", "What to capture differently next time, with commands", {report}}};
  return all;
}

Json tool_json(const Tool& tool) {
  Json properties = Json::object(), required = Json::array();
  for (const Argument& argument : tool.arguments) {
    Json property = {{"type", argument.type}, {"description", argument.description}};
    if (std::string_view(argument.type) == "array") property["items"] = {{"type", "string"}};
    properties[argument.name] = std::move(property);
    if (argument.is_required) required.push_back(argument.name);
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = std::move(required);
  return {{"name", tool.name},
          {"description", tool.description},
          {"inputSchema", std::move(schema)},
          {"annotations", {{"readOnlyHint", true}, {"openWorldHint", false}}}};
}

std::string dumped_message(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string error_message(const Json& id, const RpcError& error) {
  return dumped_message(
      {{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", error.code}, {"message", error.message}}}});
}

std::string named_report(const Json& arguments, const char* key) {
  const auto found = arguments.find(key);
  if (found == arguments.end() || found->is_null()) return "";
  if (!found->is_string())
    throw Refusal(400, fmt::format("the argument '{}' is no text", key), "so no report is named",
                  "tool reports lists them");
  return found->get<std::string>();
}

/// What a refusal says, in the words of the command line.
std::string refusal_text(const Json& error) {
  const Json& parts = error.at("error");
  std::string text = parts.value("problem", "");
  if (const std::string why = parts.value("why", ""); !why.empty()) text += ", " + why;
  if (const std::string advice = parts.value("what_to_do", ""); !advice.empty()) text += "; " + advice;
  return text;
}

}  // namespace

std::optional<std::string> McpServer::reply(const std::string& text) {
  Json id = nullptr;
  try {
    const Json message = parse_foreign_json(text);
    if (message.is_discarded()) throw RpcError{-32700, "this is no JSON"};
    if (!message.is_object()) throw RpcError{-32600, "this is no single message of JSON-RPC 2.0"};
    if (const auto given = message.find("id"); given != message.end() && (given->is_string() || given->is_number()))
      id = *given;
    const auto method = message.find("method");
    if (message.value("jsonrpc", Json()) != "2.0" || method == message.end() || !method->is_string()) {
      if (message.contains("result") || message.contains("error")) return std::nullopt;  // a reply; nothing was asked
      throw RpcError{-32600, "this is no request of JSON-RPC 2.0"};
    }
    if (!message.contains("id")) return std::nullopt;
    const Json parameters = message.value("params", Json::object());
    if (!parameters.is_object()) throw RpcError{-32602, "params must be an object"};
    return dumped_message({{"jsonrpc", "2.0"}, {"id", id}, {"result", result_of(*method, parameters)}});
  } catch (const RpcError& error) {
    return error_message(id, error);
  } catch (const std::exception& error) {
    return error_message(id, {-32603, pipeline::sentence_of(error)});
  }
}

Json McpServer::result_of(const std::string& method, const Json& parameters) {
  if (method == "initialize") {
    const Json asked = parameters.value("protocolVersion", Json());
    const bool is_known =
        asked.is_string() && std::find(versions.begin(), versions.end(), asked.get<std::string>()) != versions.end();
    return {{"protocolVersion", is_known ? asked : Json(versions.front())},
            {"capabilities", {{"tools", Json::object()}}},
            {"serverInfo", {{"name", "nsys-explain-mpi"}, {"version", NSYS_EXPLAIN_VERSION}}},
            {"instructions", instructions}};
  }
  if (method == "ping") return Json::object();
  if (method == "tools/list") {
    Json list = Json::array();
    for (const Tool& tool : tools()) list.push_back(tool_json(tool));
    return {{"tools", std::move(list)}};
  }
  if (method == "tools/call") return call(parameters);
  throw RpcError{-32601, fmt::format("there is no method {}", beginning_of(method))};
}

Json McpServer::call(const Json& parameters) {
  const Json name = parameters.value("name", Json()), arguments = parameters.value("arguments", Json::object());
  const auto tool = std::find_if(tools().begin(), tools().end(), [&](const Tool& t) { return name == t.name; });
  if (tool == tools().end()) throw RpcError{-32602, "there is no such tool; tools/list has all"};
  if (!arguments.is_object()) throw RpcError{-32602, "arguments must be an object"};
  bool is_error = false;
  std::string text;
  try {
    for (const auto& item : arguments.items()) {
      const std::string& key = item.key();
      const bool is_known =
          std::any_of(tool->arguments.begin(), tool->arguments.end(), [&](const Argument& a) { return key == a.name; });
      if (!is_known)
        throw Refusal(400, fmt::format("tool {} has no argument '{}'", tool->name, beginning_of(key)),
                      "so nobody can tell what is asked for", "tools/list has the arguments of every tool");
    }
    text = tool_text(tool->name, arguments, is_error);
  } catch (const Refusal& refusal) {
    is_error = true;
    text = refusal_text(Json::parse(error_json(refusal)));
  }
  return {{"content", {{{"type", "text"}, {"text", text}}}}, {"isError", is_error}};
}

std::string McpServer::tool_text(const std::string& tool, const Json& arguments, bool& is_error) {
  if (tool == "reports") {
    std::vector<std::pair<std::string, std::string>> parameters = {{"limit", "20"}};
    for (const auto& item : arguments.items()) {
      if (item.value().is_null()) continue;
      parameters.emplace_back(item.key(),
                              item.value().is_string() ? item.value().get<std::string>() : item.value().dump());
    }
    const HistoryQuery query = parse_history_query(parameters);
    return reports_tool_answer(history_of(answers_.summaries(), query), query);
  }
  if (tool == "compare") {
    const std::string before = named_report(arguments, "before"), after = named_report(arguments, "after");
    return compare_tool_answer(before, after, Json::parse(answers_.compare(before, after)->json));
  }
  std::string report = named_report(arguments, "report");
  if (report.empty()) {
    const std::vector<std::string> names = answers_.names();
    if (names.size() != 1)
      throw Refusal(400, "no report is named", "and it is not one only that could be meant", "tool reports lists them");
    report = names.front();
  }
  const auto reply = answers_.ask(report, {{"ask", "tool"}, {"tool", tool}, {"arguments", arguments}});
  is_error = reply->status != 200;
  return is_error ? refusal_text(Json::parse(reply->body)) : reply->body;
}

int run_mcp(Answers& answers, std::istream& in, std::ostream& out) {
  McpServer server(answers);
  std::string line;
  const auto answer = [&] {
    const auto reply = line.empty() ? std::nullopt : server.reply(line);
    if (reply) out << *reply << '\n' << std::flush;
    line.clear();
  };
  for (char c = 0; in.get(c);) {
    if (c == '\n') {
      answer();
    } else if (line.size() <= longest_line) {
      line += c;  // what is cut is no JSON
    }
  }
  answer();
  return 0;
}

}  // namespace nsys_explain::serve
