# penstock_layer(NAME DEPS...): one folder of src/ is one layer. Its *.cc are the layer's sources, each
# of its *_test.cc is a test program of its own (named FOLDER_x_test). The layers named after NAME are the ones it may use.
function(penstock_layer name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(penstock_${name} STATIC ${sources})
  target_include_directories(penstock_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(penstock_${name} PUBLIC Threads::Threads PRIVATE fmt::fmt)
  # A lock that is not held where it must be is an error, wherever clang is the compiler.
  target_compile_options(penstock_${name} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-Werror=thread-safety>)
  foreach(dep ${ARGN})
    target_link_libraries(penstock_${name} PUBLIC penstock_${dep})
  endforeach()
  if(PENSTOCK_TESTS)
    foreach(test ${tests})
      get_filename_component(stem ${test} NAME_WE)
      penstock_test(${name}_${stem} ${test} penstock_${name})
    endforeach()
  endif()
endfunction()

# penstock_test(NAME SOURCE LIBRARIES...): one GoogleTest program, run by ctest as one test. A test that was
# skipped for a missing kernel ability appears with its reason at the end of ./check (tools/check.py).
function(penstock_test name source)
  # The headers that take a compiler longest are compiled once for all tests.
  if(NOT TARGET penstock_test_headers)
    add_executable(penstock_test_headers EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/test/precompiled/main.cc)
    target_link_libraries(penstock_test_headers PRIVATE Threads::Threads GTest::gtest GTest::gtest_main fmt::fmt)
    target_precompile_headers(penstock_test_headers PRIVATE
      <gtest/gtest.h> <algorithm> <cstring> <memory> <string> <thread> <vector>)
  endif()
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${ARGN} GTest::gtest GTest::gtest_main fmt::fmt)
  target_precompile_headers(${name} REUSE_FROM penstock_test_headers)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
endfunction()
