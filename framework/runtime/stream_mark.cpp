#include "framework/runtime/stream_mark.h"

namespace ndtrain {

StreamMark::StreamMark(const Device& device) : device_(device) {
  const ndt_backend& abi = device.abi();
  if (!abi.event_create || !abi.native_stream) {
    throw Error("backend ", abi.name, ": its streams are no library's to wait for");
  }
  device.backend().check(abi.stream_create(device.handle(), &marked_), "stream");
  const ndt_status s = abi.event_create(device.handle(), &event_);
  if (s != NDT_OK) abi.stream_destroy(marked_);
  device.backend().check(s, "event");
}

StreamMark::~StreamMark() {
  device_.abi().event_destroy(event_);
  device_.abi().stream_destroy(marked_);
}

void StreamMark::set(ndt_stream* stream) {
  if (!stream) return;
  device_.backend().check(device_.abi().event_record(stream, event_), "event");
  device_.backend().check(device_.abi().event_wait(marked_, event_), "event");
}

void* StreamMark::native() const { return device_.abi().native_stream(marked_); }

}  // namespace ndtrain
