# The digest of the code that reads and analyses a trace. Records carry it, so that those of other code are never taken.
#   include: nsys_explain_code_digest(TARGET) adds the source of pipeline/read/code_digest.hpp, made anew when the code changes
#   cmake -DROOT=PROJECT -DOUTPUT=FILE -P code_digest.cmake: writes that source, if it has changed
set(code_parts include src/model src/ingest src/clock src/collectives src/analysis src/pipeline/read src/pipeline/run)

# Names in order, relative to the project.
macro(find_code root files)
  set(patterns)
  foreach(part IN LISTS code_parts)
    list(APPEND patterns ${root}/${part}/*.cpp ${root}/${part}/*.hpp ${root}/${part}/*.inc)
  endforeach()
  file(GLOB_RECURSE ${files} RELATIVE ${root} ${ARGN} ${patterns})
endmacro()

if(CMAKE_SCRIPT_MODE_FILE)
  find_code(${ROOT} files)
  set(lines "")
  foreach(file IN LISTS files)
    file(SHA256 ${ROOT}/${file} hash)
    string(APPEND lines "${file} ${hash}\n")
  endforeach()
  string(SHA256 digest "${lines}")
  file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[#include "pipeline/read/code_digest.hpp"

std::string_view nsys_explain::pipeline::code_digest() {
  return "@digest@";
}
]])
  return()
endif()

function(nsys_explain_code_digest target)
  find_code(${PROJECT_SOURCE_DIR} files CONFIGURE_DEPENDS)
  # The names are in the command, so that it runs again when a file goes.
  string(SHA256 names "${files}")
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/)
  set(source ${PROJECT_BINARY_DIR}/code_digest.cpp)
  set(script ${PROJECT_SOURCE_DIR}/src/pipeline/read/code_digest.cmake)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DOUTPUT=${source} -DNAMES=${names} -P ${script}
    DEPENDS ${files} ${script}
    COMMENT "Making the digest of the code")
  set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
