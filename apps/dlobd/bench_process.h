// Programs that a benchmark runs and waits for, and the signal that ends it early.
//
// While an Interrupt lives, those of SIGINT, SIGTERM and SIGHUP that are not ignored end nothing by
// themselves: every wait below returns `cancelled` instead, after it has ended its children, so
// that destructors tidy up. A program runs in a process group of its own, reads nothing on stdin,
// and dies with this process; its output is kept. One thread.
#pragma once

#include <csignal>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace dlobd::app {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Readable when somebody asked to stop.
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool pending() const;
  // In a forked child: signals act again as they did before.
  void release_in_child() const;

 private:
  sigset_t before_;
  int fd_ = -1;
};

// "stopped by a signal", for a benchmark that ends early.
base::Failure stopped();

struct Command {
  std::vector<std::string> words;        // words[0]: a path, or a name to look up in PATH
  std::vector<std::string> environment;  // "NAME=value": replace or join this process's
};

struct Finished {
  int status = 0;  // as waitpid() gives it
  std::string output;
  std::string errors;
};

// Runs all at once until the last has ended. io_error when one fails: its name, how it ended and
// the last line it said on stderr; cancelled; deadline_exceeded. None is left when this returns.
base::Result<std::vector<Finished>> run_commands(std::span<const Command> commands,
                                                 const Interrupt& interrupt, base::Duration limit);

// A folder under TMPDIR or /tmp that goes with the object.
class TempFolder {
 public:
  static base::Result<TempFolder> make();
  TempFolder(TempFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TempFolder& operator=(TempFolder&&) = delete;
  ~TempFolder();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TempFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace dlobd::app
