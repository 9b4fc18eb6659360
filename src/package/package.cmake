# What is installed and packed: programs, libraries for find_package(nsys_explain), manual, completion, Slurm scripts,
# the Python module for results.
include(CMakePackageConfigHelpers)

install(TARGETS nsys-explain-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY slurm/ DESTINATION ${CMAKE_INSTALL_DATADIR}/nsys-explain-mpi/slurm USE_SOURCE_PERMISSIONS)
install(FILES jobs/nsys_explain.py jobs/skew_heatmap.py DESTINATION ${CMAKE_INSTALL_DATADIR}/nsys-explain-mpi/python)
install(FILES README.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES src/package/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME nsys-explain-mpi)

if(NOT CMAKE_CROSSCOMPILING)
  set(man_page ${CMAKE_CURRENT_BINARY_DIR}/nsys-explain-mpi.1)
  add_custom_command(OUTPUT ${man_page}
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:nsys-explain-mpi> -DVERSION=${PROJECT_VERSION} -DOUTPUT=${man_page}
            -P ${PROJECT_SOURCE_DIR}/src/package/man_page.cmake
    DEPENDS nsys-explain-mpi ${PROJECT_SOURCE_DIR}/src/package/man_page.cmake
    COMMENT "Making the manual page")
  add_custom_target(nsys_explain_man_page ALL DEPENDS ${man_page})
  install(FILES ${man_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/nsys_explain)
set(modules model ingest)  # what a stranger links: plain traces, and reading them
set(libraries project_options)
foreach(module IN LISTS modules)
  set_target_properties(nsys_explain_${module} PROPERTIES EXPORT_NAME ${module})
  list(APPEND libraries nsys_explain_${module})
endforeach()
install(TARGETS ${libraries} EXPORT nsys_explain-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT nsys_explain-targets NAMESPACE nsys_explain:: DESTINATION ${package_directory})
install(DIRECTORY include/nsys_explain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
configure_file(src/package/config.cmake.in nsys_explain-config.cmake COPYONLY)
write_basic_package_version_file(nsys_explain-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/nsys_explain-config.cmake src/package/re2.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/nsys_explain-config-version.cmake DESTINATION ${package_directory})

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME nsys-explain-mpi)
set(CPACK_PACKAGE_CONTACT "nsys-explain-mpi maintainers <maintainers@nsys-explain-mpi.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The MPI library that it was built with, among others.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
