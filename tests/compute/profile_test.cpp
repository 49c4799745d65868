#include "compute/profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "compute/replica_runs.h"

namespace dlobd::compute {
namespace {

using namespace std::chrono_literals;

constexpr records::Shape kProfiled = {1, 28, 28};
constexpr const char* kText = R"({"name": "test", "model": "softmax", "batch_size": 64,
  "forward_ns": 1000003, "backward_ns": {"ip.weight": 70001, "ip.bias": 505},
  "grade": "measured", "anything": [1]})";

class ProfileTest : public testing::Test {
 protected:
  std::unique_ptr<Replica> make(base::Loop& loop, Backing backing = Backing::memory) {
    const Profile profile = parse_profile(kText, "test").value();
    const Model model = find_model("softmax", kProfiled, 10).value();
    return make_profile(loop, profile, model, backing).value();
  }

  base::VirtualLoop loop_;
};

TEST_F(ProfileTest, TakesExactlyTheStatedTime) {
  const auto replica = make(loop_);
  Heard heard(loop_);
  const auto got =
      run_to_end(loop_, replica->forward_backward(random_batch(kProfiled, 64, 10, 1), heard));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(loop_.now(), 1'070'509ns);
  EXPECT_EQ(got->compute, 1'070'509ns);
  EXPECT_EQ(got->loss, 0);
  EXPECT_EQ(got->samples, 64U);
  EXPECT_EQ(heard.views, (std::vector<std::size_t>{1, 0}));  // bias first
  EXPECT_EQ(heard.times, (std::vector<base::Time>{1'000'508ns, 1'070'509ns}));
}

TEST_F(ProfileTest, ScalesWithTheBatchAndRoundsOnlyOnce) {
  const auto replica = make(loop_);
  Heard heard(loop_);
  batches::Batch labels_only;
  labels_only.labels.resize(96);
  ASSERT_TRUE(run_to_end(loop_, replica->forward_backward(labels_only, heard)).has_value());
  EXPECT_EQ(heard.times, (std::vector<base::Time>{1'500'762ns, 1'605'763ns}));
}

TEST_F(ProfileTest, EvaluationIsAForwardPass) {
  const auto replica = make(loop_);
  const auto got = run_to_end(loop_, replica->evaluate(random_batch(kProfiled, 128, 10, 1)));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(loop_.now(), 2'000'006ns);
  EXPECT_EQ(got->samples, 128U);
  EXPECT_EQ(got->correct, 0U);
}

TEST_F(ProfileTest, GradientsAreZeroWhateverWasThere) {
  const auto replica = make(loop_);
  const auto gradients = replica->arena().gradients();
  std::fill(gradients.begin(), gradients.end(), 5.0F);
  Heard heard(loop_);
  run_to_end(loop_, replica->forward_backward(random_batch(kProfiled, 8, 10, 1), heard));
  EXPECT_EQ(std::accumulate(gradients.begin(), gradients.end(), 0.0F), 0.0F);
}

TEST_F(ProfileTest, RunsOnAPhantomArena) {
  const auto replica = make(loop_, Backing::phantom);
  replica->initialize(1);
  Heard heard(loop_);
  EXPECT_TRUE(
      run_to_end(loop_, replica->forward_backward(random_batch(kProfiled, 8, 10, 1), heard)));
  EXPECT_EQ(replica->arena().size(), 7'850U);
}

TEST_F(ProfileTest, AwaitsTheRealClockToo) {
  base::RealLoop real;
  const auto replica = make(real);
  Heard heard(real);
  const base::Time start = real.now();
  ASSERT_TRUE(
      run_to_end(real, replica->forward_backward(random_batch(kProfiled, 640, 10, 1), heard)));
  EXPECT_GE(real.now() - start, 10'705'090ns);
  EXPECT_GE(heard.times[0] - start, 10'005'080ns);
}

TEST_F(ProfileTest, AnEmptyBatchIsRefused) {
  const auto replica = make(loop_);
  Heard heard(loop_);
  EXPECT_FALSE(run_to_end(loop_, replica->forward_backward(batches::Batch(), heard)).has_value());
}

struct Bad {
  const char* text;
  const char* says;
};

class BadProfileTest : public testing::TestWithParam<Bad> {};

TEST_P(BadProfileTest, IsOneClearLine) {
  const auto profile = parse_profile(GetParam().text, "p.json");
  ASSERT_FALSE(profile.has_value());
  EXPECT_EQ(profile.error().kind, base::ErrorKind::corrupt_data);
  EXPECT_THAT(profile.error().message,
              testing::AllOf(testing::HasSubstr("p.json"), testing::HasSubstr(GetParam().says),
                             testing::Not(testing::HasSubstr("\n"))));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadProfileTest,
    testing::Values(
        Bad{"", "not JSON"}, Bad{"{\"name\":", "not JSON"}, Bad{"[1]", "not a JSON object"},
        Bad{R"({"model": "softmax"})", "\"name\" is missing"},
        Bad{R"({"name": 3, "model": "softmax"})", "\"name\" is no text"},
        Bad{R"({"name": "a", "model": "m", "batch_size": 0})", "\"batch_size\" must be an integer"},
        Bad{R"({"name": "a", "model": "m", "batch_size": 1.5})",
            "\"batch_size\" must be an integer"},
        Bad{R"({"name": "a", "model": "m", "batch_size": 1, "forward_ns": -4})", "forward_ns"},
        Bad{R"({"name": "a", "model": "m", "batch_size": 1, "forward_ns": 18446744073709551615})",
            "forward_ns"},
        Bad{R"({"name": "a", "model": "m", "batch_size": 1, "forward_ns": 1})", "backward_ns"},
        Bad{R"({"name": "a", "model": "m", "batch_size": 1, "forward_ns": 1, "backward_ns": 3})",
            "backward_ns"},
        Bad{R"({"name": "a", "model": "m", "batch_size": 1, "forward_ns": 1,
            "backward_ns": {"x": "1"}})",
            "\"x\" must be an integer"}));

TEST_F(ProfileTest, MustBeOfTheModel) {
  Profile profile = parse_profile(kText, "test").value();
  const Model softmax = find_model("softmax", kProfiled, 10).value();
  const Model lenet = find_model("lenet", kProfiled, 10).value();
  EXPECT_THAT(make_profile(loop_, profile, lenet).error().message,
              testing::HasSubstr("another model"));
  profile.backward_ns["ip.wieght"] = 1;
  EXPECT_THAT(make_profile(loop_, profile, softmax).error().message,
              testing::HasSubstr("ip.wieght (did you mean ip.weight?)"));
  profile.backward_ns.erase("ip.wieght");
  profile.backward_ns.erase("ip.bias");
  EXPECT_THAT(make_profile(loop_, profile, softmax).error().message, testing::HasSubstr("ip.bias"));
}

TEST_F(ProfileTest, IsReadFromAFile) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("dlobd_profile_test_{}", ::getpid());
  std::filesystem::create_directory(folder);
  const auto path = folder / "p.json";
  std::ofstream(path) << kText;
  EXPECT_EQ(read_profile(path.string())->forward_ns, 1'000'003);
  EXPECT_EQ(read_profile((folder / "none").string()).error().kind, base::ErrorKind::not_found);
  EXPECT_EQ(read_profile(folder.string()).error().kind, base::ErrorKind::io_error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace dlobd::compute
