#include "framework/parallel/data_parallel.h"

#include "framework/parallel/between_ranks.h"
#include "framework/parallel/plan_by_sizes.h"

namespace ndtrain {

DataParallel::DataParallel(Model model, std::vector<std::string> trainable, const Device& device,
                           TrainerConfig config, std::unique_ptr<Communicator> communicator,
                           const Options& options)
    : communicator_(std::move(communicator)),
      clock_(options.clock ? *options.clock : system_clock()),
      trace_(options.trace ? std::make_unique<RankTrace>() : nullptr) {
  if (!device.shares_host_memory()) {
    throw Error("ranks exchange gradients in memory of the host, which is not that of this device");
  }
  const std::vector<double> shares =
      options.shares.empty() ? std::vector<double>(static_cast<size_t>(communicator_->ranks()), 1.0)
                             : options.shares;
  const std::vector<int> first = shards_of_ranks(config.shards, shares);
  const auto rank = static_cast<size_t>(communicator_->rank());
  config.own_shards = ShardRange{first[rank], first[rank + 1]};
  const auto make_sync = [&](const Trainer::Shared& shared) {
    auto sync = std::make_unique<ExchangeSync>(
        shared, *communicator_, options.plan(shared.parameters), first, options.exchange);
    sync_ = sync.get();
    std::vector<std::string> slots;
    for (const ParameterSlot& slot : shared.parameters.slots()) slots.push_back(slot.name);
    auto timed = std::make_unique<TimedSync>(
        std::move(sync), std::move(slots), [this] { return sync_->exposed_s(); }, clock_);
    timed_ = timed.get();
    timed_->keep_spans(options.trace);
    tuner_ = std::make_unique<PlanTuner>(*sync_, *timed_, *communicator_, first,
                                         sizes_of(shared.parameters, communicator_->ranks()),
                                         options.tuning, clock_);
    return timed;
  };
  trainer_ =
      std::make_unique<Trainer>(std::move(model), std::move(trainable), device, config, make_sync);
}

DataParallel::~DataParallel() = default;

bool DataParallel::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  tuner_->go_on();
  return trainer_->train_epoch(data, result, [&](int64_t done, int64_t total) {
    if (on_step && !on_step(done, total)) sync_->ask_to_stop();
    if (trace_) trace_->add(timed_->take_spans(), communicator_->take_trace());
    if (sync_->is_stopped()) return false;
    const int64_t epochs = trainer_->config().epochs;
    tuner_->after_step({.step = epoch() * total + done,
                        .left = (epochs - epoch() % epochs) * total - done,
                        .steps_of_epoch = total});
    return true;
  });
}

std::string DataParallel::trace() {
  timed_->flush();
  trace_->add(timed_->take_spans(), communicator_->take_trace());
  return trace_->collect(*communicator_, clock_);
}

double DataParallel::exposed_s() const { return sync_->exposed_s(); }

void DataParallel::barrier() { ndtrain::barrier(*communicator_); }

}  // namespace ndtrain
