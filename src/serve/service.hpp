#pragma once

#include "serve/http_server.hpp"
#include "serve/mcp.hpp"
#include "serve/requests.hpp"

namespace nsys_explain::serve {

/// What an address of the service stands for. docs/service.md and /openapi.json describe them.
class Service {
 public:
  /// Throws Refusal where it must not or cannot start.
  explicit Service(const ServiceOptions& options);
  ~Service();

  /// Answers until `stop`. Returns the exit code.
  int run(std::ostream& out);
  void stop() { server_.stop(); }

 private:
  void before_all(const httplib::Request& request);
  void get(const httplib::Request& request, const Target& target, httplib::Response& response);
  void get_interface(const Target& target, httplib::Response& response);
  void get_report(const Target& target, httplib::Response& response);
  void send_file(const std::string& report, const std::string& file, httplib::Response& response);
  void post(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read);
  Json upload(const httplib::Request& request, const httplib::ContentReader& read);
  std::shared_ptr<const ComparisonReply> compare_sent(const httplib::Request& request,
                                                      const httplib::ContentReader& read);
  Json start(const std::string& body);
  Analyses& analyses();
  void keep_warm();

  const ServiceOptions options_;
  std::string token_, address_;
  int port_ = 0;
  std::unique_ptr<ingest::StagingDirectory> scratch_;
  Answers answers_;
  McpServer mcp_;
  UploadRoom room_, scratch_room_;
  std::unique_ptr<Analyses> analyses_;
  HttpServer server_;
  std::mutex warm_mutex_;
  std::condition_variable warm_changed_;
  bool ends_ = false;
};

}  // namespace nsys_explain::serve
