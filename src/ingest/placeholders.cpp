#include "ingest/placeholders.hpp"

#include <cstdlib>

#include <unistd.h>

namespace nsys_explain::ingest {
namespace {

std::string host_label() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return {};
  const std::string host = name;
  return host.substr(0, host.find('.'));
}

/// VAR of a %q{VAR} that starts at the beginning of `text`; empty where it is none.
std::string_view variable_name(std::string_view text) {
  if (!text.starts_with("%q{")) return {};
  const std::size_t end = text.find('}');
  return end == std::string_view::npos ? std::string_view{} : text.substr(3, end - 3);
}

}  // namespace

bool has_placeholder(std::string_view name) {
  for (std::size_t at = name.find('%'); at != std::string_view::npos; at = name.find('%', at + 1)) {
    const char kind = at + 1 < name.size() ? name[at + 1] : '\0';
    if (kind == 'h' || kind == 'p' || kind == 'n' || kind == '%' || !variable_name(name.substr(at)).empty())
      return true;
  }
  return false;
}

ExpandedName expand_placeholders(std::string_view name) {
  ExpandedName expanded;
  for (std::size_t at = 0; at < name.size(); ++at) {
    const char kind = name[at] == '%' && at + 1 < name.size() ? name[at + 1] : '\0';
    const std::string_view variable = variable_name(name.substr(at));
    if (!variable.empty()) {
      const char* value = std::getenv(std::string(variable).c_str());
      if (value == nullptr && !expanded.unset_variable) expanded.unset_variable = std::string(variable);
      if (value != nullptr) expanded.name += value;
      at += variable.size() + 3;
    } else if (kind == 'h') {
      expanded.name += host_label();
      ++at;
    } else if (kind == 'p' || kind == 'n') {
      expanded.name += '*';
      ++at;
    } else if (kind == '%') {
      expanded.name += '%';
      ++at;
    } else {
      expanded.name += name[at];
    }
  }
  return expanded;
}

}  // namespace nsys_explain::ingest
