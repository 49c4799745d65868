// Who writes the record of a run by hand whose rank 0 is lost: the lowest rank that is left.
//
// Control links all led to rank 0, so the ranks that are left meet in the folder of the records:
// each puts up a sign there (.lost-RUN-RANK), waits until all must have noticed the loss, and
// looks. The one with the lowest sign writes, under the name that rank 0 had given the run; a
// record of that name that is there already ends the matter, for ranks that come late and for a
// rank 0 that had only been stopped. Ranks that do not share the folder keep a record each: what
// one host measured is not lost because another could not be reached.
//
// Errors do not stop anybody: who cannot put up a sign writes, and the writing says what is wrong.
// The sign goes with the object. One thread.
#pragma once

#include <filesystem>
#include <string>

#include "base/time.h"

namespace dlobd::app {

class Succession {
 public:
  // `run`: as rank 0 called it. What is no name for a folder is taken for none at all.
  Succession(std::filesystem::path out, const std::string& run, int rank);
  ~Succession();
  Succession(const Succession&) = delete;
  Succession& operator=(const Succession&) = delete;

  // The record's name; empty: this rank never heard it.
  [[nodiscard]] const std::string& run() const { return run_; }
  // The record is there.
  [[nodiscard]] bool is_over() const;
  // Puts up the sign, blocks for `patience`, and looks.
  [[nodiscard]] bool falls_to_this_rank(base::Duration patience) const;

 private:
  [[nodiscard]] std::string prefix() const;
  [[nodiscard]] std::filesystem::path sign() const;

  std::filesystem::path out_;
  std::string run_;
  int rank_;
};

}  // namespace dlobd::app
