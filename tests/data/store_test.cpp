// One contract for every store, and what each adds to it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <memory>

#include "data/idx_fixture.h"
#include "storage/faulty.h"
#include "storage/local.h"
#include "storage/memory.h"
#include "syncs.h"

namespace dlobd::storage {
namespace {

using base::ErrorKind;
using dlobd::testing::Bytes;
using dlobd::testing::TempFolder;
using ::testing::HasSubstr;

Bytes bytes_of(const std::string& text) {
  Bytes bytes;
  for (const char character : text) bytes.push_back(std::byte(character));
  return bytes;
}

std::string text_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text.push_back(std::to_integer<char>(byte));
  return text;
}

void write(WritableStore& store, const std::string& path, const std::string& text) {
  auto writer = store.create(path);
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE((*writer)->append(bytes_of(text)));
  ASSERT_TRUE((*writer)->sync());
}

std::string read(Store& store, const std::string& path) {
  auto file = store.open(path);
  if (!file) return "error: " + file.error().message;
  Bytes bytes((*file)->size() + 8);
  const auto got = (*file)->read_at(0, bytes);
  if (!got) return "error: " + got.error().message;
  return text_of(std::span(bytes).first(*got));
}

// A store and an empty, existing folder in it.
struct Subject {
  TempFolder temporary;
  LocalStore local;
  MemoryStore memory;
  FaultyStore faultless{memory, {}};
  WritableStore* store = nullptr;
  std::string folder;
};

class StoreContract : public ::testing::TestWithParam<const char*> {
 protected:
  StoreContract() {
    const std::string kind = GetParam();
    subject_.folder = subject_.temporary.path();
    if (kind == "local") subject_.store = &subject_.local;
    if (kind == "memory") subject_.store = &subject_.memory;
    if (kind == "faulty") subject_.store = &subject_.faultless;
  }
  WritableStore& store() { return *subject_.store; }
  [[nodiscard]] std::string path(const std::string& name) const {
    return subject_.folder + "/" + name;
  }
  // A file in a folder inside, which thereby exists.
  void write_inside(const std::string& folder, const std::string& name) {
    if (subject_.store == &subject_.local) {
      ASSERT_EQ(::mkdir(path(folder).c_str(), 0755), 0);
    }
    write(store(), path(folder + "/" + name), "inside");
  }

  Subject subject_;
};

TEST_P(StoreContract, reads_back_what_was_appended) {
  auto writer = store().create(path("a"));
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->append(bytes_of("one ")));
  ASSERT_TRUE((*writer)->append({}));
  ASSERT_TRUE((*writer)->append(bytes_of("two")));
  ASSERT_TRUE((*writer)->sync());
  EXPECT_EQ(read(store(), path("a")), "one two");
}

TEST_P(StoreContract, reads_at_an_offset_and_short_only_at_the_end) {
  write(store(), path("a"), "0123456789");
  auto file = store().open(path("a"));
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->size(), 10U);
  Bytes four(4);
  EXPECT_EQ((*file)->read_at(3, four), 4U);
  EXPECT_EQ(text_of(four), "3456");
  EXPECT_EQ((*file)->read_at(8, four), 2U);
  EXPECT_EQ(text_of(std::span(four).first(2)), "89");
  EXPECT_EQ((*file)->read_at(10, four), 0U);
  EXPECT_EQ((*file)->read_at(1000, four), 0U);
  EXPECT_EQ((*file)->read_at(0, {}), 0U);
}

TEST_P(StoreContract, what_is_not_there_is_not_found_by_its_path) {
  const auto file = store().open(path("absent"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::not_found);
  EXPECT_THAT(file.error().message, HasSubstr(path("absent")));
  const auto listed = store().list(path("absent"));
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().kind, ErrorKind::not_found);
  const auto removed = store().remove(path("absent"));
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().kind, ErrorKind::not_found);
  const auto renamed = store().rename(path("absent"), path("b"));
  ASSERT_FALSE(renamed);
  EXPECT_EQ(renamed.error().kind, ErrorKind::not_found);
}

TEST_P(StoreContract, a_folder_is_not_a_file) {
  write_inside("folder", "a");
  const auto file = store().open(path("folder"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::io_error);
  EXPECT_EQ(file.error().message, "cannot open: it is a folder, not a file: " + path("folder"));
}

TEST_P(StoreContract, creates_nothing_over_what_exists) {
  write(store(), path("a"), "first");
  const auto writer = store().create(path("a"));
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().message, "cannot create: File exists: " + path("a"));
  EXPECT_EQ(read(store(), path("a")), "first");
}

TEST_P(StoreContract, renames_over_a_file_but_not_over_a_folder) {
  write(store(), path("a"), "new");
  write(store(), path("b"), "old");
  ASSERT_TRUE(store().rename(path("a"), path("b")));
  EXPECT_EQ(read(store(), path("b")), "new");
  EXPECT_FALSE(store().open(path("a")));
  write_inside("folder", "c");
  const auto renamed = store().rename(path("b"), path("folder"));
  ASSERT_FALSE(renamed);
  EXPECT_THAT(renamed.error().message, HasSubstr("it is a folder, not a file: " + path("folder")));
  EXPECT_EQ(read(store(), path("b")), "new");
}

TEST_P(StoreContract, removes_a_file) {
  write(store(), path("a"), "x");
  ASSERT_TRUE(store().remove(path("a")));
  EXPECT_FALSE(store().open(path("a")));
}

TEST_P(StoreContract, lists_what_lies_directly_in_a_folder) {
  write(store(), path("b"), "four");
  write(store(), path("a-"), "1");
  write_inside("a", "deep");
  const auto entries = store().list(subject_.folder);
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ((*entries)[0].path, path("a"));
  EXPECT_TRUE((*entries)[0].is_folder);
  EXPECT_EQ((*entries)[1].path, path("a-"));
  EXPECT_EQ((*entries)[2].path, path("b"));
  EXPECT_EQ((*entries)[2].size_bytes, 4U);
  EXPECT_FALSE((*entries)[2].is_folder);
  EXPECT_FALSE(store().list(path("b")));
}

TEST_P(StoreContract, an_open_file_outlives_its_name) {
  write(store(), path("a"), "still here");
  auto file = store().open(path("a"));
  ASSERT_TRUE(file);
  ASSERT_TRUE(store().remove(path("a")));
  Bytes bytes(10);
  EXPECT_EQ((*file)->read_at(0, bytes), 10U);
  EXPECT_EQ(text_of(bytes), "still here");
}

INSTANTIATE_TEST_SUITE_P(All, StoreContract, ::testing::Values("local", "memory", "faulty"),
                         [](const auto& store) { return std::string(store.param); });

TEST(LocalStore, says_what_the_system_says) {
  EXPECT_EQ(system_error(ENOSPC, "cannot write", "runs/a").message,
            "cannot write: No space left on device: runs/a");
  EXPECT_EQ(system_error(ENOSPC, "cannot write", "runs/a").kind, ErrorKind::io_error);
  EXPECT_EQ(system_error(EACCES, "cannot create", "runs/a").message,
            "cannot create: Permission denied: runs/a");
  EXPECT_EQ(system_error(ENOENT, "cannot open", "a").kind, ErrorKind::not_found);
}

TEST(LocalStore, refuses_a_path_through_a_file) {
  const TempFolder folder;
  LocalStore store;
  write(store, folder.file("a"), "x");
  const auto writer = store.create(folder.file("a/b"));
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().message, "cannot create: Not a directory: " + folder.file("a/b"));
}

TEST(LocalStore, syncs_the_entry_of_every_folder_that_it_makes) {
  const TempFolder folder;
  LocalStore store;
  ASSERT_TRUE(store.create(folder.file("a/b//c/file")));
  for (const char* const above : {".", "a", "a/b"}) {
    EXPECT_TRUE(dlobd::testing::was_synced(folder.file(above))) << above;
  }
}

TEST(LocalStore, does_not_wait_for_a_pipe) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  LocalStore store;
  const auto file = store.open(folder.file("pipe"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "cannot open: it is not a regular file: " + folder.file("pipe"));
}

// A limit on the size of files stands for a full disk: the write fails half-way.
TEST(LocalStore, a_write_that_does_not_fit_is_an_error_of_one_line) {
  const TempFolder folder;
  const std::string path = folder.file("a");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    LocalStore store;
    auto writer = store.create(path);
    if (!writer) ::_exit(3);
    const auto done = (*writer)->append(Bytes(4000));
    ::_exit(!done && done.error().message == "cannot write: File too large: " + path ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(FaultyStore, fails_the_nth_call_and_only_that) {
  MemoryStore memory;
  memory.put("a", bytes_of("0123"));
  FaultyStore store(memory, {{Operation::read, 2, Fault::Effect::fail},
                             {Operation::open, 3, Fault::Effect::fail}});
  auto file = store.open("a");
  ASSERT_TRUE(file);
  Bytes bytes(4);
  EXPECT_TRUE((*file)->read_at(0, bytes));
  const auto second = (*file)->read_at(0, bytes);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "fault set for this test: read 2: a");
  EXPECT_EQ(second.error().kind, ErrorKind::io_error);
  EXPECT_TRUE((*file)->read_at(0, bytes));
  EXPECT_TRUE(store.open("a"));
  EXPECT_FALSE(store.open("a"));
  EXPECT_TRUE(store.open("a"));
  EXPECT_EQ(store.calls(Operation::read), 3U);
  EXPECT_EQ(store.calls(Operation::open), 4U);
}

TEST(FaultyStore, shortens_reads_and_appends) {
  MemoryStore memory;
  memory.put("a", bytes_of("0123"));
  FaultyStore store(memory, {{Operation::read, 1, Fault::Effect::shorten},
                             {Operation::append, 2, Fault::Effect::shorten}});
  auto file = store.open("a");
  ASSERT_TRUE(file);
  Bytes bytes(4);
  EXPECT_EQ((*file)->read_at(0, bytes), 2U);
  EXPECT_EQ((*file)->read_at(0, bytes), 4U);
  auto writer = store.create("b");
  ASSERT_TRUE(writer);
  EXPECT_TRUE((*writer)->append(bytes_of("whole ")));
  EXPECT_FALSE((*writer)->append(bytes_of("half")));
  EXPECT_EQ(read(memory, "b"), "whole ha");
}

TEST(FaultyStore, fails_what_changes_a_store) {
  MemoryStore memory;
  memory.put("a", bytes_of("x"));
  FaultyStore store(memory, {{Operation::create, 1, Fault::Effect::fail},
                             {Operation::sync, 1, Fault::Effect::fail},
                             {Operation::rename, 1, Fault::Effect::fail},
                             {Operation::remove, 1, Fault::Effect::fail},
                             {Operation::list, 1, Fault::Effect::fail}});
  EXPECT_FALSE(store.create("b"));
  auto writer = store.create("b");
  ASSERT_TRUE(writer);
  EXPECT_FALSE((*writer)->sync());
  EXPECT_TRUE((*writer)->sync());
  EXPECT_FALSE(store.rename("a", "c"));
  EXPECT_FALSE(store.remove("a"));
  EXPECT_FALSE(store.list(""));
  EXPECT_EQ(read(memory, "a"), "x");
}

}  // namespace
}  // namespace dlobd::storage
