// What a correct program must expect to go wrong: a peer gone, a short read, a full disk.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "framework/core/error.h"

namespace ndtrain {

enum class Code {
  kOk,
  kNotFound,
  kExists,
  kCorrupt,
  kIo,
  kNoSpace,
  kTooLarge,
  kUnsupported,
  kCancelled,
  kUnavailable  // what has it does not answer; later it may
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // For callers to whom a failure is a bug, or who have an Error boundary above them.
  void or_throw() const {
    if (!ok()) throw Error(message_);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// Either a value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {  // NOLINT
    if (status_.ok()) throw Error("Result: made from an ok Status without a value");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

  T or_throw() && {
    status_.or_throw();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ndtrain
