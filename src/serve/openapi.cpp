#include "serve/pages.hpp"

namespace nsys_explain::serve {
namespace {

Json described(const char* description) {
  return {{"description", description}, {"content", {{"application/json", {{"schema", {{"type", "object"}}}}}}}};
}

Json parameter(const char* name, const char* place, const char* description) {
  return {{"name", name},
          {"in", place},
          {"required", std::string(place) == "path"},
          {"description", description},
          {"schema", {{"type", "string"}}}};
}

Json operation(const char* summary, const char* status, Json parameters) {
  return {{"summary", summary},
          {"parameters", std::move(parameters)},
          {"responses", {{status, described(summary)}, {"default", {{"$ref", "#/components/responses/Error"}}}}}};
}

Json table_parameters(Json parameters) {
  Json where =
      parameter("where", "query",
                "A condition such as trace_rank=5, wait_ns>=1000, phase!=decode, name~gemm (contains); all must hold");
  where["schema"] = {{"type", "array"}, {"items", {{"type", "string"}}}};
  parameters.push_back(parameter("table", "path", "Name of a table"));
  parameters.push_back(parameter("columns", "query", "Columns with commas between them"));
  parameters.push_back(std::move(where));
  parameters.push_back(parameter("order", "query", "Columns to sort by; -wait_ns sorts the largest first"));
  parameters.push_back(parameter("limit", "query", "Most rows: 100, or up to 50000"));
  parameters.push_back(parameter("offset", "query", "Rows to leave out first"));
  return parameters;
}

Json start_operation() {
  Json start = operation("Uploads exports, or names paths of them, and starts an analysis", "202", Json::array());
  start["requestBody"] = {
      {"required", true},
      {"content",
       {{"multipart/form-data",
         {{"schema",
           {{"type", "object"},
            {"properties",
             {{"name", {{"type", "string"}}},
              {"files", {{"type", "array"}, {"items", {{"type", "string"}, {"format", "binary"}}}}}}}}}}},
        {"application/json",
         {{"schema",
           {{"type", "object"},
            {"required", {"name", "paths"}},
            {"properties",
             {{"name", {{"type", "string"}}}, {"paths", {{"type", "array"}, {"items", {{"type", "string"}}}}}}}}}}}}}};
  return start;
}

Json compare_operation() {
  Json compare = operation("The same of two stores that are sent", "200", Json::array());
  const Json file = {{"type", "string"}, {"format", "binary"}};
  compare["requestBody"] = {{"required", true},
                            {"content",
                             {{"multipart/form-data",
                               {{"schema",
                                 {{"type", "object"},
                                  {"required", {"before", "after"}},
                                  {"properties", {{"before", file}, {"after", file}}}}}}}}}};
  return compare;
}

}  // namespace

std::string openapi_json() {
  const Json name = parameter("name", "path", "Name of a report; a slash in it is written %2F");
  const Json id = parameter("id", "path", "Number of an analysis");
  const Json two = {parameter("before", "query", "Name of the earlier report"),
                    parameter("after", "query", "Name of the later report")};
  Json paths;
  paths["/api/v1/reports"]["get"] = operation(
      "The reports with job, verdict, step, saving, ranks and date, and how many match", "200",
      {parameter("find", "query", "Only reports whose name or verdict has this text"),
       parameter("job", "query", "Only runs of this job"),
       parameter("order", "query",
                 "date, name, saving, severity or step; '-' before it: the largest first; -date where left out"),
       parameter("limit", "query", "Most reports, 100 where left out"),
       parameter("offset", "query", "Reports to leave out first")});
  paths["/api/v1/reports/{name}"]["get"] = operation("The same of one report", "200", Json::array({name}));
  constexpr std::array<std::pair<const char*, const char*>, 5> parts = {
      {{"verdict", "The verdict, step time and stragglers"},
       {"findings", "All findings with evidence and next action"},
       {"what_if", "What mending would save, by replay"},
       {"capture_advice", "What to capture differently"},
       {"tables", "Which tables there are"}}};
  for (const auto& [part, summary] : parts)
    paths[std::string("/api/v1/reports/{name}/") + part]["get"] = operation(summary, "200", Json::array({name}));
  paths["/api/v1/reports/{name}/tables/{table}"]["get"] =
      operation("Rows of a table", "200", table_parameters(Json::array({name})));
  paths["/api/v1/compare"]["get"] = operation("What changed between two reports, beyond the noise", "200", two);
  paths["/api/v1/compare"]["post"] = compare_operation();
  paths["/api/v1/analyses"]["get"] = operation("Analyses that wait, run or are over", "200", Json::array());
  paths["/api/v1/analyses"]["post"] = start_operation();
  paths["/api/v1/analyses/{id}"]["get"] = operation("How one analysis stands", "200", Json::array({id}));
  paths["/api/v1/analyses/{id}"]["delete"] = operation("Cancels an analysis", "200", Json::array({id}));
  const Json error_parts = {
      {"problem", {{"type", "string"}}}, {"why", {{"type", "string"}}}, {"what_to_do", {{"type", "string"}}}};
  const Json error_schema = {{"type", "object"},
                             {"properties", {{"error", {{"type", "object"}, {"properties", error_parts}}}}}};
  const Json document = {{"openapi", "3.0.3"},
                         {"info",
                          {{"title", "nsys-explain-mpi"},
                           {"version", NSYS_EXPLAIN_VERSION},
                           {"description", "Reports of nsys-explain-mpi; docs/service.md says more"}}},
                         {"paths", std::move(paths)},
                         {"components",
                          {{"responses",
                            {{"Error",
                              {{"description", "Problem, why it matters, what to do"},
                               {"content", {{"application/json", {{"schema", error_schema}}}}}}}}},
                           {"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
                         {"security", {{{"token", Json::array()}}, Json::object()}}};
  return document.dump(2) + '\n';
}

}  // namespace nsys_explain::serve
