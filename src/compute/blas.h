// Which BLAS libtorch multiplies with, and with which of its kernels. The library is loaded by path
// before libtorch, so that libtorch's own dependency resolves to it. OpenBLAS chooses its kernel
// when it is loaded, by the variable OPENBLAS_CORETYPE or else by what it believes the CPU to be,
// which for an old OpenBLAS on a new CPU means SSE3 at half the speed: so the kernel is chosen
// here, from what the CPU says it can do, best first. Each candidate must get a product right,
// compared with a plain loop, in a child process before this process trusts it.
//
// This is the one place of the library that sets environment variables: BLAS and OpenMP read
// nothing else. Call before other threads start; once a process.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dlobd::compute {

enum class Blas { reference, openblas, mkl };

base::Result<Blas> parse_blas(std::string_view text);  // invalid_argument, with the nearest name
std::string text(Blas blas);

struct CpuFeatures {
  std::string vendor;  // "AuthenticAMD", "GenuineIntel", ""
  std::string model;   // "AMD EPYC"
  bool avx2_fma = false;
  bool avx512 = false;  // F, DQ, CD, BW and VL: what OpenBLAS calls SKYLAKEX
};

CpuFeatures detect_cpu();
// OpenBLAS core names for this CPU, the fastest first.
std::vector<std::string> openblas_kernels(const CpuFeatures& cpu);

// What was chosen and why; goes into RunRecords and `doctor`.
struct BlasReport {
  std::string library;  // "openblas 0.3.21", "reference", "mkl 2025.3"
  std::string path;     // of the file loaded
  std::string kernel;   // in use, as the library names it; "" where it does not say
  std::string
      expected_kernel;  // the fastest that this CPU can run; "" where the library chooses itself
  std::string chosen_because;
  bool product_checked = false;  // compared with a plain loop and equal
};

struct BlasOptions {
  std::optional<Blas> blas;  // none: OpenBLAS where it is installed, else the reference BLAS
  // Set in the user's environment as OPENBLAS_CORETYPE: tried like any other, respected, and
  // reported. "" for unset.
  std::string preset_kernel;
  std::string mkl_folder;  // with libmkl_rt.so; "" for the build's (DLOBD_MKL_FOLDER)
  int threads = 1;         // of one rank
};

// Loads the library into this process. not_found: not installed (says which package has it);
// unavailable: no kernel of it multiplies correctly here; invalid_argument: the preset one does
// not.
base::Result<BlasReport> load_blas(const BlasOptions& options);

// The same error for a preset kernel, from children alone: this process loads nothing.
base::Result<void> check_preset_kernel(const BlasOptions& options);

// What to do where the kernel in use is not the one that this CPU should have; nothing where it is,
// or where the library chooses by itself.
std::optional<std::string> slow_kernel(std::string_view kernel, std::string_view expected);

// Where it lies on this host, without loading it; for `doctor`.
base::Result<std::string> find_blas(Blas blas, const std::string& mkl_folder);

}  // namespace dlobd::compute
