#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstring>

#include "compute/blas.h"

namespace dlobd::compute {

CpuFeatures detect_cpu() {
  CpuFeatures cpu;
#if defined(__x86_64__)
  std::array<unsigned, 4> words{};
  if (__get_cpuid(0, &words[0], &words[1], &words[2], &words[3]) != 0) {
    const std::array<unsigned, 3> name = {words[1], words[3], words[2]};
    cpu.vendor.assign(reinterpret_cast<const char*>(name.data()), sizeof(name));
  }
  // The brand string, 16 characters a leaf.
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    if (__get_cpuid(leaf, &words[0], &words[1], &words[2], &words[3]) == 0) break;
    const auto* text = reinterpret_cast<const char*>(words.data());
    cpu.model.append(text, strnlen(text, sizeof(words)));
  }
  cpu.model.erase(0, cpu.model.find_first_not_of(' '));
  cpu.model.erase(cpu.model.find_last_not_of(' ') + 1);
  // These ask the operating system too, whether it saves the wide registers.
  cpu.avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  cpu.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl");
#endif
  return cpu;
}

std::vector<std::string> openblas_kernels(const CpuFeatures& cpu) {
  std::vector<std::string> kernels;
  const bool amd = cpu.vendor == "AuthenticAMD" || cpu.vendor == "HygonGenuine";
  if (cpu.avx512) kernels.emplace_back("SkylakeX");
  if (cpu.avx2_fma) {
    kernels.emplace_back(amd ? "Zen" : "Haswell");
    kernels.emplace_back(amd ? "Haswell" : "Zen");
  }
  return kernels;
}

}  // namespace dlobd::compute
