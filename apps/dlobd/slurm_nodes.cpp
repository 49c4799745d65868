#include "slurm_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace dlobd::app {

using base::ErrorKind;
using base::Result;

namespace {

constexpr std::size_t kMaxNameBytes = 253;  // of a host's name in DNS

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_of_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.';
}

// What is left of a list to read.
class ListReader {
 public:
  ListReader(const char* what, std::string_view text) : what_(what), text_(text) {}

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  template <class Predicate>
  std::string_view take_while(Predicate wanted) {
    const std::size_t begin = at_;
    while (!at_end() && wanted(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  [[nodiscard]] base::Failure wrong(std::string_view expected) const {
    constexpr std::size_t kShown = 200;
    return base::fail(
        ErrorKind::invalid_argument,
        fmt::format("not a list of {}: expected {} at character {}: {}{}", what_, expected, at_ + 1,
                    text_.substr(0, kShown), text_.size() > kShown ? "..." : ""));
  }

 private:
  const char* what_;
  std::string_view text_;
  std::size_t at_ = 0;
};

// Of digits, whatever their number: without their zeros, the longer one is the larger.
bool is_larger(std::string_view left, std::string_view right) {
  const auto significant = [](std::string_view digits) {
    return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
  };
  left = significant(left);
  right = significant(right);
  return left.size() != right.size() ? left.size() > right.size() : left > right;
}

// "01-04,07]": the first number of it.
Result<std::string_view> read_ranges(ListReader& list) {
  std::string_view first;
  do {
    const auto low = list.take_while(is_digit);
    if (low.empty()) return list.wrong("a number");
    if (first.empty()) first = low;
    if (!list.take('-')) continue;
    const auto high = list.take_while(is_digit);
    if (high.empty()) return list.wrong("a number");
    if (is_larger(low, high)) return list.wrong("a range that goes up before this");
  } while (list.take(','));
  if (!list.take(']')) return list.wrong("',', '-' or ']'");
  return first;
}

// "rack[1-2]node[01-04]": its first node.
Result<std::string> read_element(ListReader& list) {
  std::string name;
  while (true) {
    const auto text = list.take_while(is_of_name);
    name += text;
    if (list.take('[')) {
      DLOBD_TRY(number, read_ranges(list));
      name += number;
    } else {
      break;
    }
  }
  if (name.empty()) return list.wrong("the name of a node");
  if (name.size() > kMaxNameBytes) return list.wrong("names of at most 253 characters before this");
  return name;
}

}  // namespace

Result<std::string> first_node(std::string_view nodes) {
  ListReader list("nodes", nodes);
  std::string first;
  do {
    DLOBD_TRY(name, read_element(list));
    if (first.empty()) first = name;
  } while (list.take(','));
  if (!list.at_end()) return list.wrong("',' or '['");
  return first;
}

Result<int> tasks_on_node(std::string_view tasks, std::uint64_t node) {
  ListReader list("tasks per node", tasks);
  const auto read_number = [&list](std::string_view digits) -> Result<int> {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 1) {
      return list.wrong(
          fmt::format("a number from 1 to {} before this", std::numeric_limits<int>::max()));
    }
    return value;
  };
  int found = 0;
  do {
    DLOBD_TRY(count, read_number(list.take_while(is_digit)));
    std::uint64_t nodes = 1;
    if (list.take('(')) {
      if (!list.take('x')) return list.wrong("'x'");
      DLOBD_TRY(repeats, read_number(list.take_while(is_digit)));
      if (!list.take(')')) return list.wrong("')'");
      nodes = static_cast<std::uint64_t>(repeats);
    }
    if (found == 0 && node < nodes) found = count;
    node -= std::min(node, nodes);
  } while (list.take(','));
  if (!list.at_end()) return list.wrong("',' or '('");
  if (found == 0) {
    return base::fail(ErrorKind::invalid_argument,
                      fmt::format("the list of tasks per node ends before this node: {}", tasks));
  }
  return found;
}

}  // namespace dlobd::app
