#include "training/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/idx_fixture.h"
#include "storage/local.h"

namespace dlobd::training {
namespace {

Checkpoint example() {
  Checkpoint checkpoint;
  checkpoint.run = "stack=\"caffeonspark\"\nlearning_rate=0.01\nranks=2\n";
  checkpoint.step = 1234;
  checkpoint.epoch = 1;
  checkpoint.batch = 296;
  checkpoint.parameters = {1.5F, -0.0F, 1e-40F};
  checkpoint.state = {2};
  checkpoint.momentum = {3, 4, 5};
  checkpoint.residuals = {6, 7, 8, 9, 10, 11};
  checkpoint.generators = {std::string("\0\xff", 2), ""};
  return checkpoint;
}

TEST(Checkpoint, ComesBackBitForBit) {
  const auto decoded = decode(encode(example()));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(*decoded, example());
}

TEST(Checkpoint, EveryCutAndEveryFlippedBitIsNoticed) {
  const auto whole = encode(example());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(decode(std::span(whole).first(bytes)).has_value()) << bytes;
  }
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    auto damaged = whole;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(decode(damaged).has_value()) << bit;
  }
}

TEST(Checkpoint, SavesUnderItsNameOnlyWhenWhole) {
  testing::TempFolder folder;
  storage::LocalStore store;
  const std::string path = folder.file("a.ckpt");
  ASSERT_TRUE(save(store, path, example()).has_value());
  auto later = example();
  later.step = 5000;
  ASSERT_TRUE(save(store, path, later).has_value()) << "an older one of the same name is replaced";
  const auto loaded = load(store, path);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->step, 5000U);
  const auto entries = store.list(folder.path());
  ASSERT_TRUE(entries.has_value());
  EXPECT_EQ(entries->size(), 1U) << "nothing half-written is left";
}

TEST(Checkpoint, WhatCouldNotBeReadAgainIsNotWritten) {
  testing::TempFolder folder;
  storage::LocalStore store;
  const std::string path = folder.file("a.ckpt");
  auto wide = example();
  wide.generators.assign(128, std::string(5056, '\x7f'));  // in hexadecimal digits: 1.2 MiB
  const auto saved = save(store, path, wide);
  ASSERT_FALSE(saved.has_value());
  EXPECT_THAT(saved.error().message, ::testing::HasSubstr("do not fit into a checkpoint"));
  const auto entries = store.list(folder.path());
  ASSERT_TRUE(entries.has_value());
  EXPECT_TRUE(entries->empty());
  wide.generators.resize(64);
  ASSERT_TRUE(save(store, path, wide).has_value());
  EXPECT_TRUE(load(store, path).has_value());
}

TEST(Checkpoint, NamesWhatDiffersFromTheRun) {
  EXPECT_TRUE(check_same_run(example(), example().run, "a.ckpt"));
  const auto same =
      check_same_run(example(), "stack=\"caffeonspark\"\nlearning_rate=0.02\nranks=4\n", "a.ckpt");
  ASSERT_FALSE(same.has_value());
  EXPECT_EQ(same.error().message,
            "the checkpoint is of another run; give what it was made with, or start without "
            "--resume: a.ckpt: learning_rate is 0.01 there, 0.02 here");
  // Of the time before checkpoints knew their data.
  const auto older = check_same_run(example(), example().run + "data_digest=\"5\"\n", "a.ckpt");
  ASSERT_FALSE(older.has_value());
  EXPECT_THAT(older.error().message, ::testing::HasSubstr("older version"));
}

TEST(Checkpoint, RefusesOtherFiles) {
  const std::string text = "this is some other file, long enough to have a header";
  const auto decoded = decode(std::as_bytes(std::span(text)));
  ASSERT_FALSE(decoded.has_value());
  EXPECT_THAT(decoded.error().message, ::testing::HasSubstr("not a checkpoint"));
}

}  // namespace
}  // namespace dlobd::training
