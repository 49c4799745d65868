# dlobd_options: what every target of the project is compiled with. Nothing is set globally.
add_library(dlobd_options INTERFACE)
target_compile_features(dlobd_options INTERFACE cxx_std_20)
target_include_directories(dlobd_options INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_compile_options(dlobd_options INTERFACE -Wall -Wextra -Werror -Wnon-virtual-dtor
  # The same bits on every machine: no fused multiply-add unless a kernel asks for it.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(dlobd_options INTERFACE -fcoroutines -Wshadow=local
    # False alarms of g++ 12 inside std::string (bug 105651) and std::variant (bug 105562).
    -Wno-restrict -Wno-maybe-uninitialized)
endif()
# The macros that Asio needs on every compiler; headers only, no Boost. g++ 12 frees some coroutine frames
# by the global operator delete, not by Asio's recycling one: so all of them use the global pair.
# Asio decides on aligned_alloc by a macro of whatever header happens to come first: decided here for all.
target_compile_definitions(dlobd_options INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED
  ASIO_HAS_CO_AWAIT=1 ASIO_HAS_STD_COROUTINE=1 ASIO_HAS_STD_ALIGNED_ALLOC=1
  ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING=1)
if(DLOBD_SANITIZE)
  target_compile_options(dlobd_options INTERFACE -fsanitize=${DLOBD_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(dlobd_options INTERFACE -fsanitize=${DLOBD_SANITIZE})
  target_compile_definitions(dlobd_options INTERFACE DLOBD_SANITIZED=1)
  if(DLOBD_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(dlobd_options INTERFACE -fno-sanitize=function)  # clang 14 cannot, in coroutines
  endif()
  if(DLOBD_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(dlobd_options INTERFACE -Wno-tsan)  # Asio's fence
  endif()
endif()

# Most of the time of compiling goes into the same headers. So several sources are compiled as one, for which names
# in anonymous namespaces must differ within a target. Clang compiles them over the headers of others that most
# include, compiled before: once as libraries are, once as programs of tests are (g++ 12 would save half as much, and
# has false alarms then). The presets ask for it; by default each source is compiled by itself.
option(DLOBD_UNITY "Compile several sources of a target at once, over precompiled headers" OFF)
set(dlobd_common_headers <algorithm> <array> <chrono> <cstdint> <filesystem> <functional> <map> <memory> <optional>
  <span> <string> <vector> <fmt/format.h> <asio/awaitable.hpp> <asio/co_spawn.hpp> <asio/io_context.hpp>
  <asio/post.hpp> <asio/steady_timer.hpp> <asio/use_awaitable.hpp>)
function(dlobd_precompiled target owner)
  if(NOT DLOBD_UNITY OR NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    return()
  elseif(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${dlobd_common_headers} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
  # Without the time in it, for ccache.
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
endfunction()
function(dlobd_unity target)
  if(DLOBD_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # A coroutine's frame holds its local types: no trouble in a source, only in what looks like a header.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

# dlobd_library(NAME SOURCES ... LINKS ...): the static library dlobd_NAME. LINKS states each permitted
# dependency on another folder (dlobd_base) or library.
function(dlobd_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(dlobd_${name} STATIC ${ARG_SOURCES})
  set_target_properties(dlobd_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  dlobd_unity(dlobd_${name})
  target_link_libraries(dlobd_${name} PUBLIC dlobd_options ${ARG_LINKS})
  dlobd_precompiled(dlobd_${name} dlobd_base)
endfunction()

# dlobd_test(NAME SOURCES ... LINKS ... [LABELS ...] [TIMEOUT seconds] [SHARDS n]): the test program NAME_test, one
# ctest entry, or n that share its tests and run side by side (NAME_0, ...). Two labels are what the sanitizer
# presets build and run: `protocol` (asan) and `threads` (tsan: what runs on one thread cannot race); each has a
# target of all its programs, protocol_tests and threads_tests.
function(dlobd_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;SHARDS" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  dlobd_unity(${name}_test)
  dlobd_precompiled(${name}_test dlobd_test_headers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # A quarter less of compiling; what is tested is in the libraries.
    target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  target_include_directories(${name}_test PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name}_test PRIVATE ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(ARG_SHARDS)
    math(EXPR last "${ARG_SHARDS} - 1")
    foreach(shard RANGE ${last})
      add_test(NAME ${name}_${shard} COMMAND ${name}_test)
      # The longest first, so that none of them is left to run alone.
      set_tests_properties(${name}_${shard} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" COST 100
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  endif()
  dlobd_label(${name}_test ${ARG_LABELS})
endfunction()

# dlobd_label(TARGET LABEL...): the target is built with each of LABEL_tests.
function(dlobd_label target)
  foreach(label ${ARGN})
    if(NOT TARGET ${label}_tests)
      add_custom_target(${label}_tests)
    endif()
    add_dependencies(${label}_tests ${target})
  endforeach()
endfunction()
