# Build times are kept short: slow headers are compiled once, and code that runs once is not optimized.
#   - The headers that nearly every file includes are compiled once for the library, once for the tests, once for the
#     program. These are only headers of other libraries: ours change too often.
#   - PENSTOCK_TEST_OPTIMIZATION, from the presets, is the level for tests and benches. Clang takes 8 s for
#     a test of 900 lines under both sanitizers at -O1; -O0 saves 6 of them.
#   - PENSTOCK_LIBRARY_OPTIMIZATION is the level for the layers without the trait `computes` (src/layers.txt). Under
#     both sanitizers clang makes code of seven of their files in 33 s at -O1, in 9 s at -O0.
#   - PENSTOCK_UNITY is the number of files of a layer that are compiled at once, with shared includes and templates: in
#     release, which takes a third of the processor's seconds that way, and in the builds of ./check, whose files are not edited
#     one by one. These builds do not notice a missing include that an earlier file has; the builds of dev and package do.
set(PENSTOCK_UNITY 0 CACHE STRING "how many files of a layer are compiled at once, or 0: each alone")
set(PENSTOCK_TEST_OPTIMIZATION "" CACHE STRING "optimization of tests, as in -O0, or empty: as the library")
set(PENSTOCK_LIBRARY_OPTIMIZATION "" CACHE STRING "optimization of most layers, as in -O0, or empty: the build's")

# Labels that a test carries in its own source, in a line such as "// Test labels: ci, one-thread (why)". The parts of
# ./check (tools/check.py) select their tests by them.
#   ci            only for ./check ci and ./check full, as all of papers/
#   no-sanitizer  ./check ci runs it without a sanitizer; ./check full with one, too
#   threads       runs threads against each other, in a layer whose tests do not: for the thread sanitizer
#   one-thread    the contrary: runs no threads of ours
#   slow-threads  takes minutes under the thread sanitizer, or exceeds its memory: there only for ./check full
#   first         is among the longest under the thread sanitizer, and starts first: at the end it would leave a processor idle
#   nobody        runs once more as a user without rights
#   loops         loops over items itself, which takes minutes unoptimized: ./check optimizes it
#   templates     tests templates that it instantiates itself: developers' builds optimize it as users would
set(PENSTOCK_TEST_LABELS ci no-sanitizer threads one-thread slow-threads first nobody loops templates)

# penstock_unity(TARGET): compiles PENSTOCK_UNITY files of the target at once.
function(penstock_unity target)
  if(PENSTOCK_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${PENSTOCK_UNITY})
    # Names of one file may shadow those of another. gcc takes an included source for a header, and warns of its
    # anonymous namespaces; and it notes that the passing of wide vectors to functions changed in gcc 4.6.
    target_compile_options(${target} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage> -Wno-psabi)
  endif()
endfunction()

# penstock_layer(NAME USES...): a folder of src/, papers/ or generate/ is one layer. Its *.cc files, also in subfolders, are
# the layer's sources; each *_test.cc is a test program (named NAME_x_test). Folders named target/ are programs under test; a
# folder with a CMakeLists.txt is a layer of its own. A layer uses the layers after its NAME; src/layers.txt names those of a
# folder of src/, and its traits. The caller may set LEFT_OUT: a regular expression of sources and tests that this build leaves out.
function(penstock_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/target/")
  if(LEFT_OUT)
    list(FILTER sources EXCLUDE REGEX ${LEFT_OUT})
  endif()
  file(GLOB inner CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(list IN LISTS inner)
    get_filename_component(folder ${list} DIRECTORY)
    list(FILTER sources EXCLUDE REGEX "^${folder}/")
  endforeach()
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(penstock_${name} STATIC ${sources})
  penstock_unity(penstock_${name})
  # Users of the layer need the same language standard, for our headers.
  target_compile_features(penstock_${name} PUBLIC cxx_std_23)
  target_include_directories(penstock_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(penstock_${name} PUBLIC Threads::Threads PRIVATE fmt::fmt)
  set(level ${PENSTOCK_LIBRARY_OPTIMIZATION})
  get_property(uses GLOBAL PROPERTY PENSTOCK_LAYER_${name}_USES)
  get_property(traits GLOBAL PROPERTY PENSTOCK_LAYER_${name}_TRAITS)
  if("computes" IN_LIST traits)
    set(level)
  endif()
  target_compile_options(penstock_${name} PRIVATE ${level})
  # Precompiled headers fit only one level of optimization.
  set(headers penstock_headers${level})
  if(NOT TARGET ${headers})
    add_library(${headers} STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/test/precompiled/main.cc)
    target_link_libraries(${headers} PRIVATE Threads::Threads fmt::fmt)
    target_compile_options(${headers} PRIVATE ${level})
    target_precompile_headers(${headers} PRIVATE <algorithm> <array> <atomic> <bit> <chrono> <cstring> <expected>
      <functional> <memory> <optional> <span> <string> <thread> <utility> <vector> <fmt/format.h>)
  endif()
  target_precompile_headers(penstock_${name} REUSE_FROM ${headers})
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    # gcc 12 forgets that a precompiled header is a system header, and warns of its own std::string.
    target_compile_options(penstock_${name} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
  endif()
  # A missing lock is an error with clang.
  target_compile_options(penstock_${name} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-Werror=thread-safety>)
  foreach(dep IN LISTS uses ARGN)
    target_link_libraries(penstock_${name} PUBLIC penstock_${dep})
  endforeach()
  if(PENSTOCK_TESTS)
    foreach(test ${tests})
      get_filename_component(stem ${test} NAME_WE)
      penstock_test(${name}_${stem} ${test} penstock_${name})
    endforeach()
  endif()
endfunction()

# penstock_kernels(STEM TIERS...): inner loops, STEM_TIER.cc, each compiled for its instruction set. Under sanitizers, -O3
# takes clang more than a minute for some of these files, and -O1 a third of that. For code shared by all tiers, undefined
# behaviour is checked in the portable one.
function(penstock_kernels stem)
  set(tier_portable)
  set(tier_avx2 -mavx2 -mbmi2)
  set(tier_avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mbmi2 -mprefer-vector-width=512)
  foreach(tier ${ARGN})
    set(options -O3)
    if(PENSTOCK_SANITIZE)
      set(options -O1)
      if(PENSTOCK_SANITIZE MATCHES "undefined" AND NOT tier STREQUAL "portable")
        list(APPEND options -fno-sanitize=undefined)
      endif()
    endif()
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      # The warnings are about gcc 12's own intrinsics headers (its bug 105593).
      list(APPEND options ${tier_${tier}} $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>
        $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    endif()
    # Headers precompiled for another processor cannot be used.
    set_source_files_properties(${stem}_${tier}.cc PROPERTIES COMPILE_OPTIONS "${options}" SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
endfunction()

# penstock_test_labels(SOURCE OUT): the labels in a test's source.
function(penstock_test_labels source out)
  get_filename_component(source ${source} ABSOLUTE)
  file(STRINGS ${source} line REGEX "^// Test labels: " LIMIT_COUNT 1)
  string(REGEX REPLACE "^// Test labels: | *\\(.*" "" labels "${line}")
  string(REPLACE ", " ";" labels "${labels}")
  foreach(label IN LISTS labels)
    if(NOT label IN_LIST PENSTOCK_TEST_LABELS)
      message(FATAL_ERROR "${source}: a test has no label \"${label}\": ${PENSTOCK_TEST_LABELS}")
    endif()
  endforeach()
  set(${out} "${labels}" PARENT_SCOPE)
endfunction()

# penstock_label(NAME LABELS...): sets ctest's labels of a test, and adds it to the targets that build all tests of a label.
function(penstock_label name)
  foreach(label ${ARGN})
    set_property(TEST ${name} APPEND PROPERTY LABELS ${label})
    string(REPLACE "-" "_" target ${label}_tests)
    if(NOT TARGET ${target})
      add_custom_target(${target})
    endif()
    add_dependencies(${target} ${name})
  endforeach()
endfunction()

# penstock_test(NAME SOURCE LIBRARIES...): a GoogleTest program, run by ctest as one test. A test that was
# skipped for a missing kernel feature appears with its reason at the end of ./check (tools/check.py).
function(penstock_test name source)
  string(REGEX REPLACE "_.*" "" layer ${name})
  get_property(traits GLOBAL PROPERTY PENSTOCK_LAYER_${layer}_TRAITS)
  penstock_test_labels(${source} labels)
  set(level ${PENSTOCK_TEST_OPTIMIZATION})
  if(PENSTOCK_UNITY AND ("loops" IN_LIST labels OR "loops" IN_LIST traits))
    set(level -O1)
  elseif(NOT PENSTOCK_UNITY AND "templates" IN_LIST labels)
    set(level "")
  endif()
  # Precompiled headers fit only one level of optimization.
  set(headers penstock_test_headers${level})
  if(NOT TARGET ${headers})
    add_executable(${headers} EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/test/precompiled/main.cc)
    target_link_libraries(${headers} PRIVATE Threads::Threads GTest::gtest GTest::gtest_main fmt::fmt)
    target_compile_options(${headers} PRIVATE ${level})
    target_precompile_headers(${headers} PRIVATE
      <gtest/gtest.h> <algorithm> <array> <atomic> <chrono> <condition_variable> <cstring> <expected> <filesystem>
      <fstream> <functional> <map> <memory> <mutex> <optional> <random> <span> <string> <thread> <vector>)
  endif()
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${ARGN} penstock_test_support GTest::gtest GTest::gtest_main fmt::fmt)
  target_compile_options(${name} PRIVATE ${level})
  target_precompile_headers(${name} REUSE_FROM ${headers})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
  if("first" IN_LIST labels)
    set_tests_properties(${name} PROPERTIES COST 10)
  endif()

  if("ci" IN_LIST labels OR layer STREQUAL "papers")
    penstock_label(${name} ci)
  else()
    penstock_label(${name} unit)
  endif()
  set(part other)
  if("lower" IN_LIST traits)
    set(part lower)
  endif()
  # (The program's code is in a library.)
  if(NOT layer STREQUAL "cli" AND NOT "no-sanitizer" IN_LIST labels)
    penstock_label(${name} sanitizers-${part})
  endif()
  if("threads" IN_LIST labels OR ("threads" IN_LIST traits AND NOT "one-thread" IN_LIST labels))
    penstock_label(${name} threads-full)
    if(NOT "slow-threads" IN_LIST labels AND NOT "no-sanitizer" IN_LIST labels)
      penstock_label(${name} threads-${part})
    endif()
  endif()
  if("nobody" IN_LIST labels OR "nobody" IN_LIST traits)
    penstock_label(${name} nobody)
  endif()
endfunction()
