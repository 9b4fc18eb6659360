# The target re2::re2: from RE2's own CMake package, which Debian 12 does not have, or from where the compiler finds it.
find_package(re2 CONFIG QUIET)
if(NOT TARGET re2::re2)
  find_path(RE2_INCLUDE_DIR re2/re2.h REQUIRED)
  find_library(RE2_LIBRARY re2 REQUIRED)
  add_library(re2::re2 UNKNOWN IMPORTED)
  set_target_properties(re2::re2 PROPERTIES IMPORTED_LOCATION ${RE2_LIBRARY}
                                            INTERFACE_INCLUDE_DIRECTORIES ${RE2_INCLUDE_DIR})
endif()
