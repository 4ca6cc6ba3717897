// Status and Result<T>: how every fallible function of lssar reports failure.
//
// A Status is OK, or one of a small closed set of codes and a message that names the offending
// field, its value and what is allowed. Codes separate what the caller did wrong from what the
// machine lacks and from our own bugs; the C API and the command map them one to one.
// No exception leaves a function that returns a Status.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace lssar {

// Values are part of the C ABI (lssar_status); append only.
enum class StatusCode {
  kOk = 0,
  kInvalidArgument = 1,  // a field or pointer the caller gave is out of its range
  kUnsupported = 2,      // well formed, but nothing here computes it
  kMissing = 3,          // a compiler, device or file that is needed was not found
  kCompileError = 4,     // a compiler refused the source
  kDeviceError = 5,      // load, launch or copy failed on a device
  kIoError = 6,          // a file could not be read or written
  kNotPrepared = 7,      // execute on a plan that was not prepared
  kOutOfMemory = 8,      // host or device memory
  kInternal = 9,         // a bug of ours
};

// "invalid argument", "compile error", ...
const char* status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok_status() { return {}; }
  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "invalid argument: head_dim = 7: allowed are multiples of 8 from 8 to 256".
  std::string to_string() const;

  // The same code, with `context + ": "` before the message. OK stays OK.
  Status with_context(const std::string& context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}
inline Status unsupported(std::string m) { return {StatusCode::kUnsupported, std::move(m)}; }
inline Status missing(std::string m) { return {StatusCode::kMissing, std::move(m)}; }
inline Status compile_error(std::string m) { return {StatusCode::kCompileError, std::move(m)}; }
inline Status device_error(std::string m) { return {StatusCode::kDeviceError, std::move(m)}; }
inline Status io_error(std::string m) { return {StatusCode::kIoError, std::move(m)}; }
inline Status out_of_memory(std::string m) { return {StatusCode::kOutOfMemory, std::move(m)}; }
inline Status internal_error(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

// A value, or the Status that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose
    assert(!status_.ok() && "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace lssar

// Returns early with the expression's Status if that is an error.
#define LSSAR_RETURN_IF_ERROR(expr)                    \
  do {                                                 \
    if (::lssar::Status status_ = (expr); !status_.ok()) \
      return status_;                                  \
  } while (false)

#define LSSAR_CONCAT_INNER(a, b) a##b
#define LSSAR_CONCAT(a, b) LSSAR_CONCAT_INNER(a, b)
#define LSSAR_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                \
  if (!tmp.ok()) return tmp.status();               \
  lhs = std::move(tmp).value()
// LSSAR_ASSIGN_OR_RETURN(auto x, f()): declares or assigns x, or returns f's error early.
#define LSSAR_ASSIGN_OR_RETURN(lhs, expr) \
  LSSAR_ASSIGN_OR_RETURN_IMPL(LSSAR_CONCAT(result_, __LINE__), lhs, expr)
