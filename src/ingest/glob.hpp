#pragma once

#include <string>
#include <vector>

/// Shell patterns expanded by ourselves: a shell cannot expand names on another host's disk.
namespace nsys_explain::ingest {

/// True if `text` holds one of * ? [.
bool is_pattern(const std::string& text);

/// True if the whole of `name` matches. `*` also matches '/'; bytes, not characters, are compared.
bool matches_pattern(const std::string& pattern, const std::string& name);

struct Expansion {
  std::vector<std::string> matches;     ///< sorted bytewise, each once; may include dangling links
  std::vector<std::string> unreadable;  ///< directories that could not be listed, sorted
};

/// Names that exist on this host and match. * ? [...] work in any path component and do not match a leading dot;
/// a component `**` stands for any number of directories (symbolic links to directories are not followed there), and
/// as the last one for every *.sqlite below. A component that exists literally is taken literally.
Expansion expand_pattern(const std::string& pattern);

}  // namespace nsys_explain::ingest
