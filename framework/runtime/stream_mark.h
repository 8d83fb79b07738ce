// A place in the work of a device's stream, for a library that waits for it there.
#pragma once

#include "framework/runtime/backend.h"

namespace ndtrain {

// A stream without work of its own, which has come as far as the other one had been given work when
// set() was called. Whatever waits for it does not wait for what that one is given later. Not
// thread-safe.
class StreamMark {
 public:
  // The device must outlive it. Throws Error where its streams have no events.
  explicit StreamMark(const Device& device);
  ~StreamMark();
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;

  void set(ndt_stream* stream);  // null: its work is done
  ndt_stream* stream() const { return marked_; }
  void* native() const;  // for the library

 private:
  const Device& device_;
  ndt_stream* marked_ = nullptr;
  ndt_event* event_ = nullptr;
};

}  // namespace ndtrain
