#include "framework/runtime/run_slot.h"

#include <algorithm>

#include "framework/runtime/device_tensor.h"

namespace ndtrain {
namespace {

bool fits(const TensorType& given, const TensorType& type) {
  if (given == type) return true;
  return given.dtype == type.dtype && given.shape.rank() == type.shape.rank() &&
         given.shape.rank() > 0 && given.shape[0] <= type.shape[0] &&
         given.shape.with(0, type.shape[0]) == type.shape;
}

}  // namespace

RunSlot::RunSlot(const Plan::Program& p) : p_(p), abi_(p.device.abi()) {
  const Backend& backend = p.device.backend();
  backend.check(abi_.stream_create(p.device.handle(), &stream_), "stream");
  if (!abi_.event_create) return;
  const ndt_status status = abi_.event_create(p.device.handle(), &marked_);
  if (status == NDT_OK) return;
  abi_.stream_destroy(stream_);
  backend.check(status, "event");
}

RunSlot::~RunSlot() {
  if (busy()) (void)abi_.stream_wait(stream_);  // whoever waits for results is told
  recorded_ = {};
  if (marked_) abi_.event_destroy(marked_);
  abi_.stream_destroy(stream_);
}

bool RunSlot::again(std::span<const void* const> bindings, std::span<void* const> outputs) {
  if (std::ranges::equal(bindings, last_bindings_) && std::ranges::equal(outputs, last_outputs_)) {
    return true;
  }
  recorded_ = {};
  last_bindings_.assign(bindings.begin(), bindings.end());
  last_outputs_.assign(outputs.begin(), outputs.end());
  return false;
}

void RunSlot::stage() {
  if (results_.size() == p_.outputs.size()) return;
  staged_.clear();
  results_.clear();
  input_addresses_.clear();
  output_addresses_.clear();
  const auto memory = [&](ValueId v) {
    const size_t bytes = std::max<size_t>(p_.types[index(v)].bytes(), 1);
    return staged_.emplace_back(p_.device, bytes).data();
  };
  for (ValueId v : p_.bindings) {
    const Tensor zeros(p_.types[index(v)]);
    input_addresses_.push_back(memory(v));
    p_.device.upload(staged_.back().data(), zeros.data(), zeros.bytes());
  }
  for (ValueId v : p_.outputs) output_addresses_.push_back(memory(v));
  for (ValueId v : p_.outputs) results_.push_back(host_tensor(p_.device, p_.types[index(v)]));
}

void RunSlot::upload(std::span<const Tensor> given) {
  for (size_t i = 0; i < given.size(); ++i) {
    const TensorType& type = p_.types[index(p_.bindings[i])];
    if (fits(given[i].type(), type)) continue;
    throw Error("plan: binding ", i, " is ", type, ", was given ", given[i].type());
  }
  given_.assign(given.begin(), given.end());
  busy_ = true;
  for (size_t i = 0; i < given.size(); ++i) {
    p_.device.backend().check(
        abi_.upload(stream_, staged_[i].data(), given[i].data(), given[i].bytes()), "upload");
  }
}

void RunSlot::download() {
  for (size_t k = 0; k < results_.size(); ++k) {
    p_.device.backend().check(abi_.download(stream_, results_[k].mutable_data(),
                                            output_addresses_[k], results_[k].bytes()),
                              "download");
  }
}

void RunSlot::finish() {
  const ndt_status status = abi_.stream_wait(stream_);
  given_.clear();
  busy_ = false;
  p_.device.backend().check(status, "run");
}

void RunSlot::mark() {
  if (marked_) p_.device.backend().check(abi_.event_record(stream_, marked_), "record an event");
}

void RunSlot::follow(const RunSlot& other) {
  p_.device.backend().check(abi_.event_wait(stream_, other.marked_), "wait for an event");
}

}  // namespace ndtrain
