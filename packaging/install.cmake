# The files that `cmake --install` installs, by component (packages.cmake makes a package of each):
#   - library: the C interface as libpenstock.so.0.1 (from 1.0 on, with only the major version);
#   - development: the C++ interface as one archive of all layers that it needs, libpenstock.a, which also has the C interface; headers, the
#     CMake package and two files for pkg-config: penstock (C, shared), penstock-static (C and C++);
#   - program: the program, its pages and completions, if it is built;
#   - python: the Python package, only for packages of Debian (elsewhere it is a wheel).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# All layers but report, which no public header needs.
get_property(layers GLOBAL PROPERTY PENSTOCK_LAYERS)
list(REMOVE_ITEM layers report)
set(objects)
set(libraries)
foreach(layer IN LISTS layers)
  list(APPEND objects $<TARGET_OBJECTS:penstock_${layer}>)
  get_target_property(linked penstock_${layer} LINK_LIBRARIES)
  foreach(library IN LISTS linked)
    if(NOT library MATCHES "^penstock_")
      list(APPEND libraries ${library})
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES libraries)
# nlohmann-json is header-only, and compiled in.
list(REMOVE_ITEM libraries nlohmann_json::nlohmann_json)
set(requires_fmt fmt)
if(PENSTOCK_STATIC_CXX)  # so is fmt then
  list(REMOVE_ITEM libraries fmt::fmt)
  set(requires_fmt)
endif()

# The archive needs the libraries that the build had: libbpf and PCRE2.
set(static_modules)
set(static_requires)
set(archive_depends "liburing-dev, zlib1g-dev, libzstd-dev, liblz4-dev, liblzma-dev, libbz2-dev")
if("PkgConfig::LIBBPF" IN_LIST libraries)
  set(static_modules LIBBPF=libbpf)
  set(static_requires libbpf)
  string(APPEND archive_depends ", libbpf-dev")
endif()
if(requires_fmt)
  string(APPEND archive_depends ", libfmt-dev")
endif()
if(PENSTOCK_FIND)
  list(APPEND static_modules PCRE2=libpcre2-8)
  string(APPEND static_requires " libpcre2-8")
  string(APPEND archive_depends ", libpcre2-dev")
endif()
list(JOIN static_modules " " static_modules)

add_library(penstock_static STATIC ${objects})
set_target_properties(penstock_static PROPERTIES OUTPUT_NAME penstock LINKER_LANGUAGE CXX EXPORT_NAME penstock)
set_target_properties(penstock_shared PROPERTIES EXPORT_NAME shared)
target_compile_features(penstock_static PUBLIC cxx_std_23)
target_include_directories(penstock_static INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_include_directories(penstock_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(penstock_static PRIVATE ${libraries})
# A C project links with a compiler that does not add C++ libraries.
foreach(library stdc++ m)
  target_link_libraries(penstock_static INTERFACE $<INSTALL_INTERFACE:$<$<LINK_LANGUAGE:C>:${library}>>)
endforeach()

# One export each, so that a package may have only one of the two libraries.
install(TARGETS penstock_shared EXPORT penstockShared
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS penstock_static EXPORT penstockStatic ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/penstock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
if(PENSTOCK_PROGRAM)
  install(TARGETS penstock_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
foreach(kind Shared Static)
  install(EXPORT penstock${kind} NAMESPACE penstock:: DESTINATION ${package} FILE penstock${kind}Targets.cmake COMPONENT development)
endforeach()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/penstockConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/penstockConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/penstockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/penstockConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/penstockConfigVersion.cmake
  DESTINATION ${package} COMPONENT development)
# Both find the files beside them after a move, with any name of the libraries' folder.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(file penstock penstock-static)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${file}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${file}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${file}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endforeach()
