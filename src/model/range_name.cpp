#include "nsys_explain/model/range_name.hpp"

namespace nsys_explain {

std::string_view range_name(std::string_view label) {
  for (const std::string_view mark : {", op_id = ", ", seq = ", ", sizes = ["}) {
    if (const std::size_t at = label.find(mark); at != std::string_view::npos && at > 0) label = label.substr(0, at);
  }
  return label;
}

}  // namespace nsys_explain
