# The page of report.html: its parts and the chart library (pinned by package-lock.json) become one C++ source. Without
# npm, or where the packages cannot be fetched, everything else is built and the tool says that HTML is off.
option(NSYS_EXPLAIN_HTML "Build the page of report.html (needs Node.js and npm)" ON)
find_program(NPM_PROGRAM npm)
find_program(NODE_PROGRAM node)

set(page_source ${CMAKE_CURRENT_BINARY_DIR}/no_page.cpp)
configure_file(${CMAKE_CURRENT_LIST_DIR}/no_page.cpp.in ${page_source} COPYONLY)
if(NSYS_EXPLAIN_HTML AND NPM_PROGRAM AND NODE_PROGRAM)
  set(page_packages ${CMAKE_CURRENT_BINARY_DIR}/html)
  file(MAKE_DIRECTORY ${page_packages})
  foreach(name package.json package-lock.json .npmrc)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/${name} ${page_packages}/${name} COPYONLY)
  endforeach()
  file(SHA256 ${CMAKE_CURRENT_LIST_DIR}/package-lock.json lock_hash)
  set(page_stamp ${page_packages}/${lock_hash}.fetched)
  if(NOT EXISTS ${page_stamp})
    message(STATUS "Fetching the packages of the HTML report with npm")
    execute_process(COMMAND ${NPM_PROGRAM} ci WORKING_DIRECTORY ${page_packages} RESULT_VARIABLE npm_result
                    OUTPUT_QUIET ERROR_VARIABLE npm_error)
    if(npm_result EQUAL 0)
      file(TOUCH ${page_stamp})
    else()
      message(WARNING "npm could not fetch the packages of the HTML report, so report.html is off:\n${npm_error}")
    endif()
  endif()
  if(EXISTS ${page_stamp})
    set(page_source ${page_packages}/page.cpp)
    file(GLOB page_parts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.js ${CMAKE_CURRENT_LIST_DIR}/views/*.js)
    add_custom_command(OUTPUT ${page_source}
      COMMAND ${NODE_PROGRAM} ${CMAKE_CURRENT_LIST_DIR}/build.mjs ${page_source} ${page_packages}
      DEPENDS ${page_parts} ${CMAKE_CURRENT_LIST_DIR}/build.mjs ${CMAKE_CURRENT_LIST_DIR}/style.css
              ${CMAKE_CURRENT_LIST_DIR}/page.html ${page_stamp}
      COMMENT "Making the page of report.html")
  endif()
else()
  message(STATUS "report.html is off: npm or node was not found, or NSYS_EXPLAIN_HTML is off")
endif()
target_sources(nsys_explain_report PRIVATE ${page_source})
target_include_directories(nsys_explain_report PRIVATE ${PROJECT_SOURCE_DIR}/src/report)
