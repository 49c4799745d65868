// The choice of a BLAS and its kernel. A library stays in a process for good: so each load happens
// in a child, which sends its report back.
#include "compute/blas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "compute/blas_product.h"
#include "compute/plugin.h"

namespace dlobd::compute {
namespace {

using nlohmann::json;

json as_json(const base::Result<BlasReport>& report) {
  if (!report) return {{"error", report.error().message}, {"kind", name(report.error().kind)}};
  return {{"library", report->library},        {"path", report->path},
          {"kernel", report->kernel},          {"expected", report->expected_kernel},
          {"because", report->chosen_because}, {"checked", report->product_checked}};
}

// Runs `work` in a child process; its JSON comes back through a pipe.
json in_a_child(const std::function<json()>& work) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = work().dump();
    const bool sent = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  return json::parse(text, nullptr, false);
}

json load(Blas blas, const std::string& preset = "") {
  return in_a_child([&] {
    BlasOptions options;
    options.blas = blas;
    options.preset_kernel = preset;
    if (preset.empty())
      unsetenv("OPENBLAS_CORETYPE");
    else
      setenv("OPENBLAS_CORETYPE", preset.c_str(), 1);
    return as_json(load_blas(options));
  });
}

TEST(Blas, ParsesWhatItPrints) {
  for (const char* word : {"reference", "openblas", "mkl"})
    EXPECT_EQ(text(*parse_blas(word)), word);
  EXPECT_EQ(parse_blas("openbals").error().message,
            "no such BLAS: openbals (did you mean openblas?)");
}

TEST(Blas, KernelsFollowTheCpu) {
  CpuFeatures cpu;
  EXPECT_TRUE(openblas_kernels(cpu).empty());  // nothing known: OpenBLAS's own choice
  cpu.vendor = "GenuineIntel";
  cpu.avx2_fma = true;
  EXPECT_EQ(openblas_kernels(cpu), (std::vector<std::string>{"Haswell", "Zen"}));
  cpu.vendor = "AuthenticAMD";
  EXPECT_EQ(openblas_kernels(cpu), (std::vector<std::string>{"Zen", "Haswell"}));
  cpu.avx512 = true;
  EXPECT_EQ(openblas_kernels(cpu), (std::vector<std::string>{"SkylakeX", "Zen", "Haswell"}));
}

TEST(Blas, OpenblasRunsAKernelThatFitsTheCpuAndWasChecked) {
  ASSERT_TRUE(find_blas(Blas::openblas, "")) << "make setup installs OpenBLAS";
  const json report = load(Blas::openblas);
  ASSERT_FALSE(report.contains("error")) << report.dump();
  EXPECT_THAT(report["library"], testing::MatchesRegex("openblas [0-9.]+.*"));
  EXPECT_THAT(report["path"].get<std::string>(), testing::HasSubstr("openblas"));
  EXPECT_TRUE(report["checked"].get<bool>());
  EXPECT_FALSE(report["kernel"].get<std::string>().empty());
  // The best that the CPU can run, or the reason says why not.
  if (report["because"].get<std::string>().find(';') == std::string::npos) {
    EXPECT_STRCASEEQ(report["kernel"].get<std::string>().c_str(),
                     report["expected"].get<std::string>().c_str());
  }
}

TEST(Blas, APresetKernelIsRespectedAndReported) {
  ASSERT_TRUE(find_blas(Blas::openblas, "")) << "make setup installs OpenBLAS";
  const json report = load(Blas::openblas, "Nehalem");
  ASSERT_FALSE(report.contains("error")) << report.dump();
  EXPECT_STRCASEEQ(report["kernel"].get<std::string>().c_str(), "nehalem");
  EXPECT_THAT(report["because"].get<std::string>(), testing::HasSubstr("OPENBLAS_CORETYPE"));
}

TEST(Blas, APresetKernelThatIsNotThereLeavesTheChoiceToTheLibrary) {
  ASSERT_TRUE(find_blas(Blas::openblas, "")) << "make setup installs OpenBLAS";
  const json report = load(Blas::openblas, "NoSuchCore");
  ASSERT_FALSE(report.contains("error")) << report.dump();
  EXPECT_TRUE(report["checked"].get<bool>());
  EXPECT_THAT(report["because"].get<std::string>(),
              testing::HasSubstr("NoSuchCore is not in this OpenBLAS"));
}

TEST(Blas, APresetKernelThatTrapsIsRefused) {
  ASSERT_TRUE(find_blas(Blas::openblas, "")) << "make setup installs OpenBLAS";
  const json report = load(Blas::openblas, "SkylakeX");
  if (detect_cpu().avx512) {  // it does not trap here: then it is taken
    EXPECT_FALSE(report.contains("error")) << report.dump();
    EXPECT_STRCASEEQ(report["kernel"].get<std::string>().c_str(), "skylakex");
    return;
  }
  ASSERT_TRUE(report.contains("error")) << report.dump();
  EXPECT_EQ(report["kind"], "invalid_argument");
  EXPECT_THAT(report["error"].get<std::string>(),
              testing::StartsWith("the kernel of OPENBLAS_CORETYPE cannot run here"));
  const json checked = in_a_child([] {
    BlasOptions options;
    options.preset_kernel = "SkylakeX";
    const auto works = check_preset_kernel(options);
    options.blas = Blas::reference;  // which has no kernels
    return json{{"error", works ? "" : works.error().message},
                {"reference", check_preset_kernel(options).has_value()}};
  });
  EXPECT_EQ(checked["error"], report["error"]);
  EXPECT_TRUE(checked["reference"].get<bool>());
}

TEST(Blas, AKernelBelowTheCpuIsKnown) {
  EXPECT_FALSE(slow_kernel("SkylakeX", "SKYLAKEX"));
  EXPECT_FALSE(slow_kernel("anything", ""));  // the library chooses by itself
  EXPECT_THAT(slow_kernel("Prescott", "Zen").value_or(""),
              testing::HasSubstr("this CPU can run Zen"));
}

TEST(Blas, TheReferenceIsAnotherLibrary) {
  ASSERT_TRUE(find_blas(Blas::reference, "")) << "make setup installs the reference BLAS";
  const json report = load(Blas::reference);
  ASSERT_FALSE(report.contains("error")) << report.dump();
  EXPECT_EQ(report["library"], "reference");
  EXPECT_THAT(report["path"].get<std::string>(), testing::HasSubstr("/blas/libblas"));
  EXPECT_TRUE(report["checked"].get<bool>());
}

TEST(Blas, MklThatIsNotThereIsRefused) {
  const auto got = find_blas(Blas::mkl, "/nowhere");
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().kind, base::ErrorKind::not_found);
  EXPECT_THAT(got.error().message, testing::HasSubstr("/nowhere"));
}

TEST(Blas, MklFromItsFolder) {
  // MKL is an option of the build (make mkl), 680 MB large: a build without it has nothing to test.
  if (!find_blas(Blas::mkl, "")) GTEST_SKIP() << "this build has no folder of MKL";
  const json report = load(Blas::mkl);
  ASSERT_FALSE(report.contains("error")) << report.dump();
  EXPECT_THAT(report["library"], testing::MatchesRegex("mkl [0-9.]+"));
  EXPECT_TRUE(report["checked"].get<bool>());
}

#ifdef DLOBD_PLUGIN_FOLDER
// Which files of a BLAS are mapped once libtorch is in.
json libtorch_with(Blas blas) {
  return in_a_child([blas] {
    PluginOptions options;
    options.folder = DLOBD_PLUGIN_FOLDER;
    options.processor = Processor::parse("cpu").value();
    options.blas.blas = blas;
    const auto got = load_torch(options);
    if (!got) return json{{"error", got.error().message}};
    return json{{"path", got->report.blas.path}, {"library", got->report.blas.library}};
  });
}

TEST(Blas, LibtorchTakesTheChosenOne) {
  ASSERT_TRUE(find_blas(Blas::reference, "") && find_blas(Blas::openblas, ""))
      << "make setup installs both";
  const json reference = libtorch_with(Blas::reference);
  const json openblas = libtorch_with(Blas::openblas);
  if (reference.contains("error") &&
      reference["error"].get<std::string>().find("carries its own BLAS") != std::string::npos) {
    // As PyPI's builds do, which take no other: the refusal is tested by reaching this line.
    GTEST_SKIP() << "this libtorch has MKL built in";
  }
  EXPECT_EQ(reference["library"], "reference") << reference.dump();
  EXPECT_THAT(openblas["library"].get<std::string>(), testing::StartsWith("openblas"));
  EXPECT_NE(reference["path"], openblas["path"]);
}
#endif

int wrong_calls = 0;

// Right but for one element.
void almost_sgemm(const char* ta, const char* tb, const int* m, const int* n, const int* k,
                  const float* alpha, const float* a, const int* lda, const float* b,
                  const int* ldb, const float* beta, float* c, const int* ldc, std::size_t,
                  std::size_t) {
  for (int column = 0; column < *n; ++column) {
    for (int row = 0; row < *m; ++row) {
      double sum = 0;
      for (int i = 0; i < *k; ++i) {
        sum += double{*ta == 'T' ? a[i + row * *lda] : a[row + i * *lda]} *
               (*tb == 'T' ? b[column + i * *ldb] : b[i + column * *ldb]);
      }
      float& element = c[row + column * *ldc];
      element = static_cast<float>(*alpha * sum + double{*beta} * element);
    }
  }
  if (wrong_calls > 0) c[*m * *n / 2] += 0.01F;
}

TEST(BlasProduct, OneWrongElementIsSeen) {
  void* sgemm = reinterpret_cast<void*>(&almost_sgemm);
  wrong_calls = 0;
  EXPECT_TRUE(multiplies_correctly(sgemm));
  wrong_calls = 1;
  EXPECT_FALSE(multiplies_correctly(sgemm));
}

}  // namespace
}  // namespace dlobd::compute
