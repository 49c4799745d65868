#include "complaint.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dlobd::app {

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7f) {
      line += c;
    } else if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else {
      line += fmt::format("\\x{:02x}", code);
    }
  }
  return line;
}

void show(std::FILE* where, std::string_view text) {
  const bool told = std::ferror(where) != 0;
  const bool whole = std::fwrite(text.data(), 1, text.size(), where) == text.size();
  if ((std::fflush(where) == 0 && whole) || told || where != stdout || errno == EPIPE) return;
  complain("dlobd", fmt::format("cannot write all of the output: {}", std::strerror(errno)));
}

void complain(std::string_view who, std::string_view what) {
  show(stderr, fmt::format("{}: {}\n", who, one_line(what)));
}

bool output_arrived() {
  show(stdout, "");
  if (std::ferror(stdout) == 0) return true;
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  const bool reader_left = ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
  return reader_left;
}

}  // namespace dlobd::app
