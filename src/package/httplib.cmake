# The target httplib::httplib: from cpp-httplib's own CMake package, which Debian 12 does not have, or Debian's shared
# library, with the options that it was compiled with.
find_package(httplib CONFIG QUIET)
if(NOT TARGET httplib::httplib)
  find_path(HTTPLIB_INCLUDE_DIR httplib.h REQUIRED)
  find_library(HTTPLIB_LIBRARY cpp-httplib REQUIRED)
  add_library(httplib::httplib UNKNOWN IMPORTED)
  set_target_properties(httplib::httplib PROPERTIES IMPORTED_LOCATION ${HTTPLIB_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${HTTPLIB_INCLUDE_DIR}
    INTERFACE_COMPILE_DEFINITIONS "CPPHTTPLIB_OPENSSL_SUPPORT;CPPHTTPLIB_ZLIB_SUPPORT;CPPHTTPLIB_BROTLI_SUPPORT")
endif()
