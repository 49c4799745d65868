# FindLibtorch: the target Libtorch::Libtorch, from Debian's libtorch-dev or from any libtorch or PyPI wheel
# whose folder (or its share/cmake, as torch.utils.cmake_prefix_path names it) is in CMAKE_PREFIX_PATH.
#
# libtorch's own TorchConfig is not used: that of a CUDA build insists on a CUDA toolkit, which code that calls
# only ATen's general interface does not need. Sets Libtorch_VERSION, Libtorch_CUDA and Libtorch_CXX11_ABI.

set(_libtorch_roots "")
foreach(_prefix ${CMAKE_PREFIX_PATH})
  list(APPEND _libtorch_roots "${_prefix}" "${_prefix}/../.." "${_prefix}/torch")
endforeach()

find_path(Libtorch_INCLUDE_DIR ATen/ATen.h HINTS ${_libtorch_roots} PATH_SUFFIXES include)
find_path(Libtorch_API_INCLUDE_DIR torch/version.h
  HINTS "${Libtorch_INCLUDE_DIR}/torch/csrc/api/include" "${Libtorch_INCLUDE_DIR}"
  PATHS /usr/include/torch/csrc/api/include NO_DEFAULT_PATH)
if(Libtorch_INCLUDE_DIR)
  get_filename_component(_libtorch_root "${Libtorch_INCLUDE_DIR}" DIRECTORY)
endif()
foreach(_library torch_cpu c10 torch_cuda c10_cuda)
  # Beside the headers first: two libtorches must not be mixed.
  find_library(Libtorch_${_library}_LIBRARY ${_library} PATHS "${_libtorch_root}/lib" NO_DEFAULT_PATH)
endforeach()
foreach(_library torch_cpu c10)
  find_library(Libtorch_${_library}_LIBRARY ${_library})
endforeach()

# Recent ones keep the numbers in a file of their own.
foreach(_file "${Libtorch_INCLUDE_DIR}/torch/headeronly/version.h" "${Libtorch_API_INCLUDE_DIR}/torch/version.h")
  if(EXISTS "${_file}" AND NOT Libtorch_VERSION)
    file(READ "${_file}" _text)
    string(REGEX MATCH "define TORCH_VERSION_MAJOR ([0-9]+).*define TORCH_VERSION_MINOR ([0-9]+).*define TORCH_VERSION_PATCH ([0-9]+)"
      _ "${_text}")
    if(NOT "${CMAKE_MATCH_3}" STREQUAL "")
      set(Libtorch_VERSION "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
    endif()
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch
  REQUIRED_VARS Libtorch_torch_cpu_LIBRARY Libtorch_c10_LIBRARY Libtorch_INCLUDE_DIR Libtorch_API_INCLUDE_DIR
  VERSION_VAR Libtorch_VERSION
  REASON_FAILURE_MESSAGE "Debian: apt install libtorch-dev, or set CMAKE_PREFIX_PATH, or -DDLOBD_TORCH=OFF")

if(Libtorch_FOUND AND NOT TARGET Libtorch::Libtorch)
  if(Libtorch_torch_cuda_LIBRARY AND Libtorch_c10_cuda_LIBRARY)
    set(Libtorch_CUDA ON)
  else()
    set(Libtorch_CUDA OFF)
  endif()
  # A mangled name tells which std::string the library was built with.
  execute_process(COMMAND ${CMAKE_NM} -D --defined-only "${Libtorch_c10_LIBRARY}"
    OUTPUT_VARIABLE _libtorch_symbols ERROR_QUIET)
  if(_libtorch_symbols MATCHES "__cxx11")
    set(Libtorch_CXX11_ABI 1)
  else()
    set(Libtorch_CXX11_ABI 0)
  endif()

  add_library(Libtorch::Libtorch INTERFACE IMPORTED)
  target_include_directories(Libtorch::Libtorch SYSTEM INTERFACE
    "${Libtorch_INCLUDE_DIR}" "${Libtorch_API_INCLUDE_DIR}")
  target_compile_definitions(Libtorch::Libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=${Libtorch_CXX11_ABI})
  target_link_libraries(Libtorch::Libtorch INTERFACE "${Libtorch_torch_cpu_LIBRARY}" "${Libtorch_c10_LIBRARY}")
  # What the linker does not look into: the libraries that libtorch itself needs are found at run time.
  target_link_options(Libtorch::Libtorch INTERFACE -Wl,--allow-shlib-undefined)
  if(Libtorch_CUDA)
    # Nothing here calls it by name; it registers itself with ATen when it is loaded.
    target_link_libraries(Libtorch::Libtorch INTERFACE
      -Wl,--push-state,--no-as-needed "${Libtorch_torch_cuda_LIBRARY}" "${Libtorch_c10_cuda_LIBRARY}"
      -Wl,--pop-state)
  endif()
endif()
mark_as_advanced(Libtorch_INCLUDE_DIR Libtorch_API_INCLUDE_DIR Libtorch_torch_cpu_LIBRARY Libtorch_c10_LIBRARY
  Libtorch_torch_cuda_LIBRARY Libtorch_c10_cuda_LIBRARY)
