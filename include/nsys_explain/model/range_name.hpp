#pragma once

#include <string_view>

namespace nsys_explain {

/// The label without what makes every single range of PyTorch unique: ", op_id = 42", ", seq = 7", ", sizes = [...]".
std::string_view range_name(std::string_view label);

}  // namespace nsys_explain
