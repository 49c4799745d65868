// Result<T>: a value, or an Error that the outside world caused. It has the member names of
// std::expected. A message has static text first and values last; each layer may add one
// "while ..." phrase with while_doing(); nobody logs and returns.
// Pass a failure on with DLOBD_TRY (functions) or DLOBD_CO_TRY (coroutines): both declare a local.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace dlobd::base {

enum class ErrorKind {
  invalid_argument,   // the caller's words are off: refused before anything starts
  not_found,          // a file, host, interface, library that is not there
  corrupt_data,       // bytes that do not say what they should
  io_error,           // the operating system refused or failed
  refused,            // a peer refused us, or we a peer: by name, with the reason
  unavailable,        // a capability that this host or build lacks
  deadline_exceeded,  // the other side did not answer in time
  peer_lost,          // a rank of the job is gone; Error::rank says which
  diverged,           // the loss is not a finite number any more
  cancelled,          // somebody asked to stop
};

std::string_view name(ErrorKind kind);

struct Error {
  ErrorKind kind;
  std::string message;
  std::optional<int> rank;  // the culprit, where one rank is

  Error(ErrorKind kind, std::string message, std::optional<int> rank = std::nullopt)
      : kind(kind), message(std::move(message)), rank(rank) {}

  // The same error with ", while <what>" appended.
  [[nodiscard]] Error while_doing(std::string_view what) const {
    return {kind, message + ", while " + std::string(what), rank};
  }

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = tl::expected<T, Error>;

using Failure = tl::unexpected<Error>;

inline Failure fail(ErrorKind kind, std::string message, std::optional<int> rank = std::nullopt) {
  return Failure(Error(kind, std::move(message), rank));
}

inline Failure fail(Error error) {
  return Failure(std::move(error));
}

}  // namespace dlobd::base

// DLOBD_TRY(lines, read_lines(path));  declares `lines`, or returns the error.
#define DLOBD_TRY(variable, expression)                                          \
  auto variable##_result = (expression);                                         \
  if (!variable##_result) return ::dlobd::base::fail(variable##_result.error()); \
  auto& variable = *variable##_result

// The same for Result<void>. `tag` names the local that it declares.
#define DLOBD_TRY_VOID(tag, expression) \
  auto tag##_result = (expression);     \
  if (!tag##_result) return ::dlobd::base::fail(tag##_result.error())

// In coroutines: auto got = co_await f(); DLOBD_CO_CHECK(got);  keeps co_await out of larger
// expressions.
#define DLOBD_CO_CHECK(result) \
  if (!(result)) co_return ::dlobd::base::fail((result).error())
