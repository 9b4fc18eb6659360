#include "serve/service.hpp"

#include <algorithm>
#include <chrono>
#include <ostream>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "model/text.hpp"
#include "pipeline/tool_rank/own_process.hpp"
#include "serve/pages.hpp"

namespace nsys_explain::serve {
namespace {

constexpr std::int64_t most_body_bytes = 1'000'000;
constexpr const char* json_type = "application/json";
constexpr const char* html_type = "text/html; charset=utf-8";
constexpr auto warm_time = std::chrono::seconds(10);

constexpr const char* own_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Pages of reports hold scripts of their own, and names from traces: they get no origin, so they reach nothing here.
constexpr const char* report_policy =
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

struct ReportFile {
  const char *name, *type;
};
constexpr std::array<ReportFile, 4> report_files = {{{"report.html", html_type},
                                                     {"report.md", "text/plain; charset=utf-8"},
                                                     {"report.json", json_type},
                                                     {"store.h5", "application/octet-stream"}}};

Refusal nothing_there() {
  return {404, "there is nothing at this address", "so nothing is answered", "/openapi.json lists the addresses"};
}

void send(httplib::Response& response, int status, const std::string& body, const char* type,
          const char* policy = own_policy) {
  response.status = status;
  response.set_header("Content-Security-Policy", policy);
  response.set_content(body, type);
}

void send_json(httplib::Response& response, int status, const Json& answer) {
  send(response, status, answer.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n', json_type);
}

/// For programs as JSON, for people as a page.
void send_refusal(const httplib::Request& request, httplib::Response& response, const Refusal& refusal) {
  const std::string error = error_json(refusal);
  const bool for_program =
      request.path.starts_with("/api/") || request.path == "/mcp" || request.path == "/openapi.json";
  if (refusal.status() == 401)
    response.set_header("WWW-Authenticate", "Basic realm=\"nsys-explain-mpi\", charset=\"UTF-8\"");
  if (for_program || (request.method != "GET" && request.path != "/compare"))
    return send(response, refusal.status(), error, json_type);
  send(response, refusal.status(), problem_page(Json::parse(error)), html_type);
}

/// Runs a handler; what it throws becomes an answer.
template <class Work>
void answered(const httplib::Request& request, httplib::Response& response, const Work& work) {
  try {
    work();
  } catch (const Refusal& refusal) {
    send_refusal(request, response, refusal);
  } catch (const std::exception& error) {
    send_refusal(request, response, refusal_of(500, pipeline::sentence_of(error)));
  }
}

std::int64_t id_of(const std::string& text) {
  if (const auto id = integer_of(text)) return *id;
  throw nothing_there();
}

/// Refuses parameters that mean nothing, lest a mistyped one goes unnoticed.
void only_parameters(const Target& target, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : target.parameters) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw Refusal(400, fmt::format("there is no parameter '{}'", beginning_of(name)),
                  "so nobody can tell what is asked for", "/openapi.json lists the parameters");
  }
}

bool is_upload(const httplib::Request& request) {
  return request.method == "POST" && request.path == "/api/v1/analyses" && request.is_multipart_form_data();
}

/// Two stores that a page or a program sends, to be compared.
bool is_sent_comparison(const httplib::Request& request) {
  return request.method == "POST" && (request.path == "/compare" || request.path == "/api/v1/compare") &&
         request.is_multipart_form_data();
}

std::unique_ptr<ingest::StagingDirectory> make_scratch() {
  try {
    return std::make_unique<ingest::StagingDirectory>(std::filesystem::temp_directory_path(), "nsys-explain-serve-");
  } catch (const std::system_error&) {
    return nullptr;  // nothing can be compared
  }
}

}  // namespace

Service::Service(const ServiceOptions& options)
    : options_(options),
      token_(options.token_file.empty() ? "" : read_token(options.token_file)),
      scratch_(make_scratch()),
      answers_(options.root, scratch_ ? scratch_->path() : std::filesystem::path()),
      mcp_(answers_),
      room_(options.root),
      scratch_room_(scratch_ ? scratch_->path().string() : options.root),
      server_([this](const httplib::Request& request) {
        return (is_upload(request) && analyses_) || is_sent_comparison(request)
                   ? options_.upload_bytes + most_body_bytes
                   : most_body_bytes;
      }) {
  const auto [address, port] = parse_address(options.listen);
  if (token_.empty() && !is_loopback(address)) {
    throw Refusal(2, fmt::format("{} can be reached from other hosts", address),
                  "so everybody there could read the reports and start analyses",
                  "give --token-file FILE, or listen at 127.0.0.1");
  }
  address_ = address;
  if (!options.read_only) analyses_ = std::make_unique<Analyses>(options, [this] { answers_.look_again(); });
  port_ = server_.bind(address, port);
  server_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    bool is_done = true;
    answered(request, response, [&] {
      before_all(request);
      const Target target = parse_target(request.target);
      if (request.method == "GET" || request.method == "HEAD") return get(request, target, response);
      if (request.method == "DELETE" && target.segments.size() == 4 && target.segments[2] == "analyses")
        return send_json(response, 200, analyses().cancel(id_of(target.segments[3])));
      if (request.method != "POST")
        throw Refusal(405, fmt::format("there is no {} here", beginning_of(request.method)), "so nothing is done",
                      "/openapi.json lists what there is");
      is_done = false;
    });
    return is_done ? httplib::Server::HandlerResponse::Handled : httplib::Server::HandlerResponse::Unhandled;
  });
  server_.Post(
      ".*", [this](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
        answered(request, response, [&] { post(request, response, read); });
      });
  server_.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty() || response.content_length_ > 0) return;
    send_refusal(request, response,
                 Refusal(response.status, "the request cannot be understood", "so nothing is answered",
                         "send a request of HTTP/1.1 with a body as long as it says"));
  });
}

Service::~Service() = default;

int Service::run(std::ostream& out) {
  const bool is_long = address_.find(':') != std::string::npos;
  out << fmt::format("Serving {} at http://{}:{}/{}\n", options_.root, is_long ? '[' + address_ + ']' : address_, port_,
                     token_.empty() ? "" : ", with a token")
      << std::flush;
  std::thread warm([this] { keep_warm(); });
  server_.listen_after_bind();
  {
    const std::lock_guard lock(warm_mutex_);
    ends_ = true;
  }
  warm_changed_.notify_all();
  warm.join();
  return 0;
}

/// The list of reports is asked for first: what it takes is read before anybody asks.
void Service::keep_warm() {
  std::unique_lock lock(warm_mutex_);
  while (!ends_) {
    lock.unlock();
    try {
      answers_.summaries();
    } catch (const std::exception&) {
      // Whoever asks is told.
    }
    lock.lock();
    warm_changed_.wait_for(lock, warm_time, [&] { return ends_; });
  }
}

void Service::before_all(const httplib::Request& request) {
  const std::string host = request.get_header_value("Host");
  if (token_.empty() && !is_loopback_host(host)) {
    throw Refusal(403, fmt::format("this service is not called '{}'", beginning_of(host)),
                  "so a page of somebody else may have sent the request", "ask by 127.0.0.1 or localhost");
  }
  if (!token_.empty() && !is_authorised(request.get_header_value("Authorization"), token_)) {
    throw Refusal(401, "the token is missing or wrong", "so nothing is answered",
                  "send 'Authorization: Bearer TOKEN', or the token as password");
  }
  const bool changes_nothing = request.method == "GET" || request.method == "HEAD";
  if (!changes_nothing &&
      !is_own_origin(request.get_header_value("Origin"), host, request.get_header_value("Sec-Fetch-Site"))) {
    throw Refusal(403, "the request comes from a page of another site", "so nobody here may have wanted it",
                  "use the pages of this service, or a program");
  }
}

Analyses& Service::analyses() {
  if (analyses_) return *analyses_;
  throw Refusal(403, "this service is read-only", "so it starts no analysis",
                "run nsys-explain-mpi and put the report below its directory");
}

void Service::get(const httplib::Request& request, const Target& target, httplib::Response& response) {
  const std::vector<std::string>& at = target.segments;
  if (at.empty()) {
    const HistoryQuery query = parse_history_query(target.parameters);
    return send(response, 200, list_page(history_of(answers_.summaries(), query), query, analyses_ != nullptr),
                html_type);
  }
  if (at.size() > 1 && at[0] == "api" && at[1] == "v1") return get_interface(target, response);
  if (at[0] == "reports" && at.size() > 1) return get_report(target, response);
  if (at.size() != 1) throw nothing_there();
  if (at[0] == "openapi.json") return send(response, 200, openapi_json(), json_type);
  if (at[0] == "service.css") return send(response, 200, style_sheet, "text/css; charset=utf-8");
  if (at[0] == "service.js") return send(response, 200, list_script, "text/javascript; charset=utf-8");
  if (at[0] == "drop.js") return send(response, 200, drop_script, "text/javascript; charset=utf-8");
  if (at[0] == "compare") {
    only_parameters(target, {"before", "after"});
    const std::string before = target.parameter("before"), after = target.parameter("after");
    return send(response, 200, comparison_page(answers_.compare(before, after)->page, before, after), html_type,
                report_policy);
  }
  if (at[0] == "mcp")
    throw Refusal(405, "this address takes messages and sends none by itself", "so there is nothing to get",
                  "send each message as a POST");
  (void)request;
  throw nothing_there();
}

void Service::get_interface(const Target& target, httplib::Response& response) {
  const std::vector<std::string>& at = target.segments;
  const auto is = [&](std::size_t parts, std::string_view word) { return at.size() == parts && at[2] == word; };
  if (is(3, "reports")) {
    const History history = history_of(answers_.summaries(), parse_history_query(target.parameters));
    return send_json(response, 200, {{"reports", history.summaries}, {"matching", history.matching}});
  }
  if (is(3, "compare")) {
    only_parameters(target, {"before", "after"});
    return send(response, 200, answers_.compare(target.parameter("before"), target.parameter("after"))->json,
                json_type);
  }
  if (is(3, "analyses")) return send_json(response, 200, analyses().all());
  if (is(4, "analyses")) return send_json(response, 200, analyses().status(id_of(at[3])));
  if (at.size() < 4 || at[2] != "reports") throw nothing_there();
  Json question;
  if (at.size() == 4) question = {{"ask", "summary"}};
  if (at.size() == 5) {
    constexpr std::array words = {"verdict", "findings", "what_if", "capture_advice", "tables"};
    if (std::find(words.begin(), words.end(), at[4]) == words.end()) throw nothing_there();
    question = {{"ask", at[4]}};
  }
  if (at.size() == 6 && at[4] == "tables") {
    const TableQuery query = parse_table_query(target.parameters);  // refused here before a reader is asked
    (void)query;
    question = {{"ask", "table"}, {"table", at[5]}, {"parameters", target.parameters}};
  } else {
    only_parameters(target, {});
  }
  if (question.is_null()) throw nothing_there();
  const auto reply = answers_.ask(at[3], question);
  send(response, reply->status, reply->body, json_type);
}

void Service::get_report(const Target& target, httplib::Response& response) {
  only_parameters(target, {});
  const std::string& name = target.segments[1];
  if (target.segments.size() == 3) return send_file(name, target.segments[2], response);
  if (target.segments.size() != 2) throw nothing_there();
  const auto verdict = answers_.ask(name, {{"ask", "verdict"}}), findings = answers_.ask(name, {{"ask", "findings"}});
  if (verdict->status != 200)
    return send(response, verdict->status, problem_page(Json::parse(verdict->body)), html_type);
  std::vector<std::string> others = answers_.names();
  std::erase(others, name);
  send(response, 200, report_page(Json::parse(verdict->body), Json::parse(findings->body), others), html_type);
}

void Service::send_file(const std::string& report, const std::string& file, httplib::Response& response) {
  const auto found =
      std::find_if(report_files.begin(), report_files.end(), [&](const ReportFile& f) { return file == f.name; });
  if (found == report_files.end()) throw nothing_there();
  const auto descriptor = std::make_shared<const Descriptor>(answers_.tree().open_file(report, file));
  const auto bytes = static_cast<std::size_t>(stamp_of(descriptor->number()).bytes);
  response.status = 200;
  response.set_header("Content-Security-Policy", report_policy);
  if (file == "store.h5") response.set_header("Content-Disposition", "attachment; filename=\"store.h5\"");
  if (bytes == 0) return response.set_content("", found->type);
  response.set_content_provider(
      bytes, found->type, [descriptor](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
        std::array<char, 65'536> buffer;
        const ssize_t count =
            ::pread(descriptor->number(), buffer.data(), std::min(length, buffer.size()), static_cast<off_t>(offset));
        return count > 0 && sink.write(buffer.data(), static_cast<std::size_t>(count));
      });
}

void Service::post(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
  if (request.path == "/api/v1/analyses" && is_upload(request)) {
    const Json status = upload(request, read);
    return send_json(response, 202, status);
  }
  if (is_sent_comparison(request)) {
    const auto reply = compare_sent(request, read);
    if (request.path == "/compare") return send(response, 200, reply->page, html_type, report_policy);
    return send(response, 200, reply->json, json_type);
  }
  if (request.path != "/api/v1/analyses" && request.path != "/mcp") throw nothing_there();
  if (!is_json_type(request.get_header_value("Content-Type")))
    throw Refusal(415, "the body is not said to be JSON", "so it is not read", "send Content-Type: application/json");
  std::string body;
  const bool is_whole = read([&](const char* bytes, std::size_t count) {
    body.append(bytes, count);
    return body.size() <= static_cast<std::size_t>(most_body_bytes);
  });
  if (!is_whole)
    throw Refusal(413, "the body is too long, too slow, or not as long as it says", "so it is not read",
                  "send at most 1 MB");
  if (request.path == "/api/v1/analyses") return send_json(response, 202, start(body));
  const auto reply = mcp_.reply(body);
  if (reply) return send(response, 200, *reply, json_type);
  response.status = 202;
}

Json Service::upload(const httplib::Request& request, const httplib::ContentReader& read) {
  Analyses& all = analyses();
  Upload upload(all, room_, options_.upload_bytes);
  const std::int64_t length = std::strtoll(request.get_header_value("Content-Length").c_str(), nullptr, 10);
  upload.claim_room(std::max<std::int64_t>(length, 0));
  const bool is_whole =
      read([&](const httplib::MultipartFormData& part) { return upload.begin_part(part.name, part.filename); },
           [&](const char* bytes, std::size_t count) {
             return upload.add({bytes, count});
           });
  return upload.finish(is_whole);
}

std::shared_ptr<const ComparisonReply> Service::compare_sent(const httplib::Request& request,
                                                             const httplib::ContentReader& read) {
  const std::int64_t length = std::strtoll(request.get_header_value("Content-Length").c_str(), nullptr, 10);
  SentStores stores(answers_.scratch(), scratch_room_, std::max<std::int64_t>(length, 0));
  const bool is_whole =
      read([&](const httplib::MultipartFormData& part) { return stores.begin_part(part.name, part.filename); },
           [&](const char* bytes, std::size_t count) {
             return stores.add({bytes, count});
           });
  const auto& [before, after] = stores.finish(is_whole);
  return answers_.compare(before, after);
}

Json Service::start(const std::string& body) {
  const Json wish = parse_foreign_json(body);
  AnalysisInput input;
  bool is_clear = wish.is_object() && wish.contains("name") && wish["name"].is_string() && wish.contains("paths") &&
                  wish["paths"].is_array();
  for (const Json& path : is_clear ? wish["paths"] : Json::array()) {
    is_clear = is_clear && path.is_string();
    if (is_clear) input.paths.push_back(path.get<std::string>());
  }
  if (!is_clear)
    throw Refusal(400, "the body is no wish for an analysis", "so nothing is started",
                  R"(send {"name": "job8", "paths": ["/traces/job8"]}, or upload files)");
  // What opens files would stop there, and name another one.
  if (std::any_of(input.paths.begin(), input.paths.end(),
                  [](const std::string& path) { return path.find('\0') != std::string::npos; }))
    throw Refusal(400, "a path holds the character NUL", "so it names no file", "send the path as the system has it");
  input.name = wish["name"].get<std::string>();
  return analyses().add(std::move(input));
}

}  // namespace nsys_explain::serve
