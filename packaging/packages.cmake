# Packages: `cpack --config build/PRESET/CPackConfig.cmake -G DEB` (or TGZ, or where rpmbuild is, RPM). The tarball has everything; Debian's
# packages and those of rpm are one for each component of install.cmake.
set(PENSTOCK_MAINTAINER "Penstock maintainers <maintainers@penstock.example>" CACHE STRING "name and address in packages: of those who publish them")
set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_VENDOR "Penstock")
set(CPACK_PACKAGE_CONTACT ${PENSTOCK_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "sorts, joins and partitions files larger than memory")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/staged.cmake)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/components.cmake)
set(CPACK_COPYRIGHT_FILE ${CMAKE_CURRENT_LIST_DIR}/copyright)
set(CPACK_PACKAGE_FILE_NAME ${PROJECT_NAME}-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/triggers)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_MAIN_COMPONENT program)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)

# penstock_package(COMPONENT DEBIAN_NAME SECTION RPM_NAME SUMMARY TEXT): a component's packages; without RPM_NAME, Debian's alone.
set(CPACK_DEB_COMPONENTS)
set(CPACK_RPM_COMPONENTS)
function(penstock_package component debian section rpm summary text)
  string(TOUPPER ${component} upper)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${debian} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON PARENT_SCOPE)
  list(APPEND CPACK_DEB_COMPONENTS ${component})
  set(CPACK_DEB_COMPONENTS ${CPACK_DEB_COMPONENTS} PARENT_SCOPE)
  if(rpm)
    set(CPACK_RPM_${upper}_PACKAGE_NAME ${rpm} PARENT_SCOPE)
    set(CPACK_RPM_${upper}_PACKAGE_SUMMARY "${summary}" PARENT_SCOPE)
    set(CPACK_RPM_${upper}_PACKAGE_DESCRIPTION "${text}" PARENT_SCOPE)
    list(APPEND CPACK_RPM_COMPONENTS ${component})
    set(CPACK_RPM_COMPONENTS ${CPACK_RPM_COMPONENTS} PARENT_SCOPE)
  endif()
endfunction()
get_target_property(interface_version penstock_shared SOVERSION)
if(PENSTOCK_PROGRAM)
  penstock_package(program penstock utils penstock "sorts, joins and partitions files larger than memory"
    "The program penstock sorts, merges, partitions, groups, joins and searches\nfiles larger than memory, within a memory budget that it keeps. It plans a run\nbefore it begins, and traces and replays the file accesses of other programs.")
endif()
penstock_package(library libpenstock${interface_version} libs penstock-libs "files and streams larger than memory, for C"
  "A library that sorts, merges and joins files larger than memory within a\nbudget, and treats data larger than memory as one plain pointer.")
penstock_package(development libpenstock-dev libdevel penstock-devel "files and streams larger than memory, for C and C++ (development)"
  "Headers, the archive for C++, the link of the C library, and files for CMake\nand pkg-config.")
set(same_version "(= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libpenstock${interface_version} ${same_version}, ${archive_depends}")
set(CPACK_RPM_DEVELOPMENT_PACKAGE_REQUIRES "penstock-libs = ${PROJECT_VERSION}")
if(PENSTOCK_PYTHON)
  penstock_package(python python3-penstock python "" "arrays and tables larger than memory, for Python"
    "Sorts of NumPy's arrays, of files, of Arrow's tables and Parquet, within a\nbudget of memory; files as arrays.")
  # The extension is for one version of CPython, or from 3.12 on for all.
  get_directory_property(python_minor DIRECTORY ${PROJECT_SOURCE_DIR}/python DEFINITION Python_VERSION_MINOR)
  set(python_depends "python3 (>= 3.${python_minor})")
  if(python_minor LESS 12)
    math(EXPR next_minor "${python_minor} + 1")
    string(APPEND python_depends ", python3 (<< 3.${next_minor})")
  endif()
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${python_depends}, python3-numpy")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "penstock, python3-tqdm")
endif()

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
