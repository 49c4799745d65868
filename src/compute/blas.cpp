#include "compute/blas.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/nearest.h"
#include "compute/blas_product.h"

namespace dlobd::compute {
namespace {

using base::ErrorKind;

constexpr const char* kLibraryFolders[] = {"/usr/lib/x86_64-linux-gnu",
                                           "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"};
constexpr const char* kOpenblasFiles[] = {"openblas-pthread/libblas.so.3",
                                          "openblas-openmp/libblas.so.3",
                                          "openblas-serial/libblas.so.3", "libopenblas.so.0"};

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// The variable holds from now on, for this process and the libraries that it loads.
void set_variable(const char* name, const std::string& value) {
  setenv(name, value.c_str(), 1);
}

void* open_library(const std::string& path) {
  return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
}

std::string openblas_core(void* library) {
  const auto corename = symbol<char* (*)()>(library, "openblas_get_corename");
  return corename != nullptr ? corename() : "";
}

enum class Trial { right, wrong_product, another_kernel, died };

// Loads OpenBLAS with one kernel in a child process and multiplies there: a kernel that computes
// nonsense or traps takes only the child with it, and leaves nothing behind. "" leaves the choice
// to OpenBLAS.
Trial try_kernel(const std::string& path, const std::string& kernel) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int trap : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) std::signal(trap, SIG_DFL);
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(10);
    if (!kernel.empty()) set_variable("OPENBLAS_CORETYPE", kernel);
    void* library = open_library(path);
    void* sgemm = library != nullptr ? dlsym(library, "sgemm_") : nullptr;
    if (sgemm == nullptr) _exit(3);
    if (!kernel.empty() && strcasecmp(openblas_core(library).c_str(), kernel.c_str()) != 0)
      _exit(2);
    _exit(multiplies_correctly(sgemm) ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return Trial::died;
  switch (WEXITSTATUS(status)) {
    case 0: return Trial::right;
    case 1: return Trial::wrong_product;
    case 2: return Trial::another_kernel;
    default: return Trial::died;
  }
}

std::string describe(Trial trial) {
  switch (trial) {
    case Trial::right: return "multiplies correctly";
    case Trial::wrong_product: return "gives wrong products";
    case Trial::another_kernel: return "is not in this OpenBLAS";
    case Trial::died: return "cannot run here";
  }
  return {};
}

struct Kernel {
  std::string name;  // "" leaves the choice to OpenBLAS
  std::string because;
};

// The user's own choice is respected where it works.
base::Result<Kernel> try_preset(const std::string& path, const std::string& preset) {
  const Trial trial = try_kernel(path, preset);
  const std::string set = "OPENBLAS_CORETYPE was set in the environment";
  if (trial == Trial::right) return Kernel{preset, set};
  // OpenBLAS then chooses by itself, and so it is tried.
  if (trial == Trial::another_kernel && try_kernel(path, "") == Trial::right) {
    return Kernel{
        "", fmt::format("{}, but {} is not in this OpenBLAS, which chose by itself", set, preset)};
  }
  return base::fail(
      ErrorKind::invalid_argument,
      fmt::format("the kernel of OPENBLAS_CORETYPE {}; unset it, and one that this CPU can run is "
                  "chosen: {}, {}",
                  describe(trial), preset, path));
}

base::Result<Kernel> choose_kernel(const std::string& path, const BlasOptions& options,
                                   const CpuFeatures& cpu) {
  if (!options.preset_kernel.empty()) return try_preset(path, options.preset_kernel);
  std::string passed_over;
  std::vector<std::string> candidates = openblas_kernels(cpu);
  candidates.emplace_back();
  for (const std::string& candidate : candidates) {
    const Trial trial = try_kernel(path, candidate);
    const std::string shown = candidate.empty() ? "OpenBLAS's own choice" : candidate;
    if (trial != Trial::right) {
      passed_over += fmt::format("{} {}; ", shown, describe(trial));
      continue;
    }
    if (candidate.empty()) return Kernel{"", passed_over + "OpenBLAS chose by itself"};
    const char* ability = cpu.avx512 && candidate == "SkylakeX" ? "AVX-512" : "AVX2 and FMA";
    return Kernel{candidate, fmt::format("{}the CPU has {} ({})", passed_over, ability, cpu.model)};
  }
  return base::fail(ErrorKind::unavailable,
                    fmt::format("no kernel of OpenBLAS multiplies correctly on this CPU: {}{} (use "
                                "--blas reference)",
                                passed_over, path));
}

base::Result<void*> load(const std::string& path) {
  void* library = open_library(path);
  if (library == nullptr) {
    return base::fail(ErrorKind::unavailable, fmt::format("cannot load the BLAS: {}", dlerror()));
  }
  return library;
}

base::Result<BlasReport> load_openblas(const std::string& path, const BlasOptions& options) {
  const CpuFeatures cpu = detect_cpu();
  const std::vector<std::string> candidates = openblas_kernels(cpu);
  DLOBD_TRY(kernel, choose_kernel(path, options, cpu));
  if (!kernel.name.empty()) set_variable("OPENBLAS_CORETYPE", kernel.name);
  // libtorch divides work by OpenMP; OpenBLAS's own threads would run besides and in the way.
  set_variable("OPENBLAS_NUM_THREADS", "1");
  DLOBD_TRY(library, load(path));
  const auto parallel = symbol<int (*)()>(library, "openblas_get_parallel");
  const auto set_threads = symbol<void (*)(int)>(library, "openblas_set_num_threads");
  constexpr int kByOpenmp = 2;
  if (parallel != nullptr && set_threads != nullptr && parallel() == kByOpenmp) {
    set_threads(options.threads);
  }
  BlasReport report;
  report.kernel = openblas_core(library);
  report.expected_kernel = candidates.empty() ? "" : candidates.front();
  report.chosen_because = kernel.because;
  // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
  const auto config = symbol<char* (*)()>(library, "openblas_get_config");
  const std::string text = config != nullptr ? config() : "";
  const std::size_t begin = text.find(' ');
  report.library = "openblas";
  if (begin != std::string::npos) {
    report.library += text.substr(begin, text.find(' ', begin + 1) - begin);
  }
  return report;
}

base::Result<BlasReport> load_reference(const std::string& path) {
  // The LAPACK beside it, else libtorch's dependencies bring another BLAS along.
  const std::filesystem::path folder = std::filesystem::path(path).parent_path().parent_path();
  const std::string lapack = (folder / "lapack/liblapack.so.3").string();
  DLOBD_TRY_VOID(blas, load(path));
  if (exists(lapack)) {
    DLOBD_TRY_VOID(lapack, load(lapack));
  }
  BlasReport report;
  report.library = "reference";
  report.chosen_because = "asked for";
  return report;
}

base::Result<BlasReport> load_mkl(const std::string& path, const BlasOptions& options) {
  set_variable("MKL_THREADING_LAYER", "GNU");
  set_variable("MKL_NUM_THREADS", std::to_string(options.threads));
  // libmkl_rt loads its parts by name when it is first used; loaded by path before, they are found.
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string suffix = std::filesystem::path(path).filename().string().substr(
      std::string_view("libmkl_rt").size());  // ".so.2"
  for (const char* part : {"libmkl_core", "libmkl_gnu_thread", "libmkl_intel_lp64"}) {
    const std::string file = (folder / (part + suffix)).string();
    if (!exists(file)) continue;
    // A part finds the symbols of the others only once all are there.
    if (dlopen(file.c_str(), RTLD_LAZY | RTLD_GLOBAL) == nullptr) {
      return base::fail(ErrorKind::unavailable, fmt::format("cannot load MKL: {}", dlerror()));
    }
  }
  DLOBD_TRY(library, load(path));
  BlasReport report;
  report.library = "mkl";
  report.chosen_because = "asked for; MKL chooses its kernel by itself";
  struct Version {
    int major, minor, update;
    char *status, *build, *processor, *platform;
  };
  const auto get_version = symbol<void (*)(Version*)>(library, "mkl_get_version");
  const auto alternative = symbol<void (*)(Version*)>(library, "MKL_Get_Version");
  if (get_version != nullptr || alternative != nullptr) {
    Version version{};
    (get_version != nullptr ? get_version : alternative)(&version);
    report.library = fmt::format("mkl {}.{}.{}", version.major, version.minor, version.update);
    if (version.processor != nullptr) report.kernel = version.processor;
  }
  return report;
}

std::string mkl_folder_of(const std::string& folder) {
  return folder.empty() ? std::string(DLOBD_MKL_FOLDER) : folder;
}

}  // namespace

base::Result<Blas> parse_blas(std::string_view text) {
  const std::vector<std::string> names = {"reference", "openblas", "mkl"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (text == names[i]) return static_cast<Blas>(i);
  }
  return base::fail(ErrorKind::invalid_argument,
                    fmt::format("no such BLAS: {} ({})", text, base::suggestion(text, names)));
}

std::string text(Blas blas) {
  switch (blas) {
    case Blas::reference: return "reference";
    case Blas::openblas: return "openblas";
    case Blas::mkl: return "mkl";
  }
  return {};
}

base::Result<std::string> find_blas(Blas blas, const std::string& mkl_folder) {
  if (blas == Blas::mkl) {
    const std::string folder = mkl_folder_of(mkl_folder);
    if (folder.empty()) {
      return base::fail(ErrorKind::not_found,
                        "MKL is not part of this build: `make mkl` installs it apart and "
                        "configures the build for it; --mkl-folder names one that is there");
    }
    for (const char* file : {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1"}) {
      const std::string path = fmt::format("{}/{}", folder, file);
      if (exists(path)) return path;
    }
    return base::fail(ErrorKind::not_found,
                      fmt::format("no libmkl_rt.so in the folder of MKL: {}", folder));
  }
  for (const char* folder : kLibraryFolders) {
    if (blas == Blas::reference) {
      const std::string path = fmt::format("{}/blas/libblas.so.3", folder);
      if (exists(path)) return path;
      continue;
    }
    for (const char* file : kOpenblasFiles) {
      const std::string path = fmt::format("{}/{}", folder, file);
      if (exists(path)) return path;
    }
  }
  return base::fail(ErrorKind::not_found,
                    blas == Blas::reference
                        ? "the reference BLAS is not installed (Debian: apt install libblas3)"
                        : "OpenBLAS is not installed (Debian: apt install libopenblas0-pthread)");
}

base::Result<void> check_preset_kernel(const BlasOptions& options) {
  const bool openblas = options.blas.value_or(Blas::openblas) == Blas::openblas;
  if (!openblas || options.preset_kernel.empty()) return {};
  const auto path = find_blas(Blas::openblas, "");
  if (!path) return {};
  DLOBD_TRY_VOID(kernel, try_preset(*path, options.preset_kernel));
  return {};
}

std::optional<std::string> slow_kernel(std::string_view kernel, std::string_view expected) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  if (expected.empty() ||
      std::equal(kernel.begin(), kernel.end(), expected.begin(), expected.end(), same)) {
    return std::nullopt;
  }
  return fmt::format("this CPU can run {}: unset OPENBLAS_CORETYPE, or install a newer OpenBLAS",
                     expected);
}

base::Result<BlasReport> load_blas(const BlasOptions& options) {
  Blas blas = options.blas.value_or(Blas::openblas);
  std::string instead;
  if (!options.blas && !find_blas(Blas::openblas, "")) {
    blas = Blas::reference;
    instead = "OpenBLAS is not installed";
  }
  set_variable("OMP_NUM_THREADS", std::to_string(options.threads));
  DLOBD_TRY(path, find_blas(blas, options.mkl_folder));
  auto loaded = blas == Blas::openblas    ? load_openblas(path, options)
                : blas == Blas::reference ? load_reference(path)
                                          : load_mkl(path, options);
  if (!loaded) return loaded;
  // The symbol that libtorch will get: from whichever library came first.
  void* sgemm = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info where{};
  if (sgemm == nullptr || dladdr(sgemm, &where) == 0) {
    return base::fail(ErrorKind::unavailable, fmt::format("the BLAS has no sgemm: {}", path));
  }
  loaded->path = where.dli_fname;
  if (!instead.empty()) loaded->chosen_because = instead;
  loaded->product_checked = multiplies_correctly(sgemm);
  if (!loaded->product_checked) {
    return base::fail(
        ErrorKind::unavailable,
        fmt::format("the BLAS gives wrong products on this CPU: {} with kernel \"{}\" "
                    "(use --blas reference, or unset OPENBLAS_CORETYPE)",
                    loaded->path, loaded->kernel));
  }
  return loaded;
}

}  // namespace dlobd::compute
