#include "nsys_explain/model/range_name.hpp"

namespace nsys_explain {

std::string_view range_name(std::string_view label) {
  for (std::size_t at = label.find(',', 1); at != std::string_view::npos; at = label.find(',', at + 1)) {
    for (const std::string_view mark : {", op_id = ", ", seq = ", ", sizes = ["}) {
      if (label.substr(at).starts_with(mark)) return label.substr(0, at);
    }
  }
  return label;
}

}  // namespace nsys_explain
