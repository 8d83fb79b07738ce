#include "framework/sparse/sync/host_staged_sync.h"

#include <cstring>
#include <utility>

#include "framework/sparse/sync/whole_gradient.h"

namespace ndtrain {

HostStagedSync::HostStagedSync(const Trainer::Shared& there, ShardRange own, int shards,
                               const Device& host, const MakeSync& make)
    : there_(there),
      parameters_(there.parameters, host),
      gradients_(parameters_.size(), own, shards, host, parameters_.gradients()),
      from_device_(host_tensor(there.device, {DType::kF32, {parameters_.size()}})),
      to_device_(host_tensor(there.device, {DType::kF32, {parameters_.size()}})),
      copies_(there.device) {
  if (there.statistics) {
    statistics_ = std::make_unique<RunningStatistics>(there.statistics->copy(), own, shards, host);
  }
  sync_ = make({parameters_, there.optimizer, gradients_, statistics_.get(), host});
}

// A run that ended by an exception may have left copies to what goes now.
HostStagedSync::~HostStagedSync() { (void)there_.device.abi().stream_wait(copies_.stream()); }

void HostStagedSync::begin_epoch(int64_t epoch) {
  take_statistics();
  sync_->begin_epoch(epoch);
  send_values();
  send_statistics();
}

void HostStagedSync::begin(const HyperParameters& hyper) {
  has_gradients_ = is_copying_ = false;
  ready_.clear();
  sync_->begin(hyper);
  if (!sync_->follows_the_run()) send_values();
}

void HostStagedSync::before_read(size_t slot, ndt_stream* stream) {
  sync_->before_read(slot, nullptr);
  const ParameterRange range = parameters_.slots()[slot].range;
  const size_t bytes = static_cast<size_t>(range.size()) * sizeof(float);
  float* const to = there_.parameters.values(range.begin);
  const float* const from = parameters_.values(range.begin);
  if (!stream) return there_.device.upload(to, from, bytes);
  float* const pinned = to_device_.mutable_as<float>().data() + range.begin;
  std::memcpy(pinned, from, bytes);
  there_.device.backend().check(there_.device.abi().upload(stream, to, pinned, bytes),
                                "upload parameters");
}

// On a stream of the run it is the one sum that there is.
void HostStagedSync::gradient_ready(size_t slot, ndt_stream* stream) {
  ready_.push_back(slot);
  if (!stream) return;
  const ParameterRange range = parameters_.slots()[slot].range;
  copies_.set(stream);
  there_.device.backend().check(
      there_.device.abi().download(copies_.stream(),
                                   from_device_.mutable_as<float>().data() + range.begin,
                                   there_.gradients.sums()[0] + range.begin,
                                   static_cast<size_t>(range.size()) * sizeof(float)),
      "download gradients");
  is_copying_ = true;
}

void HostStagedSync::take_gradients() {
  if (std::exchange(has_gradients_, true)) return;
  const auto size = static_cast<size_t>(parameters_.size());
  if (is_copying_) {
    there_.device.backend().check(there_.device.abi().stream_wait(copies_.stream()),
                                  "download gradients");
    copy_to({gradients_.sums()[0], size}, from_device_.as<float>().data());
  } else {
    for (size_t tree = 0; tree < gradients_.sums().size(); ++tree) {
      there_.device.download(from_device_.mutable_data(), there_.gradients.sums()[tree],
                             size * sizeof(float));
      copy_to({gradients_.sums()[tree], size}, from_device_.as<float>().data());
    }
  }
  for (const size_t slot : ready_) sync_->gradient_ready(slot, nullptr);
}

void HostStagedSync::add_up_statistics() {
  take_gradients();
  const size_t bytes = static_cast<size_t>(statistics_->size()) * sizeof(float);
  for (size_t tree = 0; tree < statistics_->sums().size(); ++tree) {
    there_.device.download(statistics_->sums()[tree], there_.statistics->sums()[tree], bytes);
  }
  sync_->add_up_statistics();
  there_.device.upload(there_.statistics->sums()[0], statistics_->sums()[0], bytes);
}

void HostStagedSync::share(std::span<ShardReport> reports) {
  take_gradients();
  sync_->share(reports);
}

void HostStagedSync::flush() {
  take_statistics();
  sync_->flush();
  send_values();
  send_statistics();
}

void HostStagedSync::restore(const std::map<std::string, Tensor>& state) {
  take_from_device();
  sync_->restore(state);
}

void HostStagedSync::forget() {
  take_from_device();
  sync_->forget();
}

void HostStagedSync::take_from_device() {
  const auto size = static_cast<size_t>(parameters_.size());
  there_.device.download(parameters_.values(), there_.parameters.values(), size * sizeof(float));
  take_statistics();
}

void HostStagedSync::send_values() {
  const auto size = static_cast<size_t>(parameters_.size());
  there_.device.upload(there_.parameters.values(), parameters_.values(), size * sizeof(float));
}

void HostStagedSync::take_statistics() {
  if (!statistics_) return;
  for (const auto& [name, value] : there_.statistics->copy()) statistics_->set(name, value);
}

void HostStagedSync::send_statistics() {
  if (!statistics_) return;
  for (const auto& [name, value] : statistics_->copy()) there_.statistics->set(name, value);
}

}  // namespace ndtrain
