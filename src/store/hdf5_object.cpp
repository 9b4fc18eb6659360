#include "store/hdf5_object.hpp"

namespace nsys_explain::store {

namespace {

/// HDF5 walks upward from the function that failed first; only that one knows the cause.
herr_t keep_first(unsigned depth, const H5E_error2_t* error, void* reason) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(reason) = error->desc;
  return 0;
}

/// HDF5's drivers write "..., errno = 28, error message = 'No space left on device', buf = 0x...": addresses and the
/// time of day are noise to a user.
std::string system_message(const std::string& description) {
  static constexpr std::string_view marker = "error message = '";
  const std::size_t start = description.find(marker);
  if (start == std::string::npos) return description;
  const std::size_t first = start + marker.size();
  return description.substr(first, description.find('\'', first) - first);
}

}  // namespace

void prepare_hdf5() {
  H5dont_atexit();  // fails, harmlessly, where HDF5 is in use already
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string hdf5_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  return reason.empty() ? "HDF5 gives no reason" : system_message(reason);
}

}  // namespace nsys_explain::store
