# The files that `cmake --install` installs and CPack packs:
#   - the C interface as libpenstock.so.0.1 (from 1.0 on, with only the major version);
#   - the C++ interface as one archive of all layers that it needs, libpenstock.a, which also has the C interface;
#   - headers, the CMake package and two files for pkg-config: penstock (C, shared), penstock-static (C and C++);
#   - the program, if it is built.
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
if(PENSTOCK_STATIC)  # so is fmt then
  list(REMOVE_ITEM libraries fmt::fmt)
  set(requires_fmt)
endif()

# The archive needs the libraries that the build had: libbpf and PCRE2.
set(static_modules)
set(static_requires)
set(suggested)
if("PkgConfig::LIBBPF" IN_LIST libraries)
  set(static_modules LIBBPF=libbpf)
  set(static_requires libbpf)
  set(suggested ", libbpf-dev")
endif()
if(PENSTOCK_FIND)
  list(APPEND static_modules PCRE2=libpcre2-8)
  string(APPEND static_requires " libpcre2-8")
  string(APPEND suggested ", libpcre2-dev")
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
install(TARGETS penstock_shared EXPORT penstockShared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS penstock_static EXPORT penstockStatic ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/penstock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
if(PENSTOCK_PROGRAM)
  install(TARGETS penstock_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
foreach(kind Shared Static)
  install(EXPORT penstock${kind} NAMESPACE penstock:: DESTINATION ${package} FILE penstock${kind}Targets.cmake)
endforeach()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/penstockConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/penstockConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/penstockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/penstockConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/penstockConfigVersion.cmake
  DESTINATION ${package})
# Both find the files beside them after a move, with any name of the libraries' folder.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(file penstock penstock-static)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${file}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${file}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${file}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# Packages: `cpack --config build/PRESET/CPackConfig.cmake -G DEB` (or TGZ, or where rpmbuild is, RPM).
set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_VENDOR "Penstock")
set(CPACK_PACKAGE_CONTACT "the Penstock project")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Sorts files larger than memory, and treats data larger than memory as one pointer")
set(CPACK_PACKAGE_DESCRIPTION "Sorts, merges, partitions, groups, joins and searches files larger than memory, within a memory budget that it \
keeps. With libraries for C++ and C: plain pointers to data larger than memory, in-place sorts, vectors and snapshots made by moving pages.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/staged.cmake)
set(CPACK_PACKAGE_FILE_NAME ${PROJECT_NAME}-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
# Packages for programs that link libpenstock.a.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libfmt-dev, liburing-dev, zlib1g-dev, libzstd-dev, liblz4-dev, liblzma-dev, libbz2-dev${suggested}")
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_DESCRIPTION ${CPACK_PACKAGE_DESCRIPTION})
# pkg-config is no requirement; and builds are reproducible.
set(CPACK_RPM_SPEC_MORE_DEFINE "%global __requires_exclude ^(/usr/bin/pkg-config|pkgconfig.*)$
%define _build_id_links none
%define _buildhost localhost
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1")
# Folders that belong to the system.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib64 /usr/lib64/cmake /usr/lib64/pkgconfig /usr/share /usr/share/man
  /usr/share/man/man1 /usr/share/bash-completion /usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/site-functions
  /usr/share/fish /usr/share/fish/vendor_completions.d /usr/share/doc)
include(CPack)
