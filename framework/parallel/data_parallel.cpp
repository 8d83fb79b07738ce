#include "framework/parallel/data_parallel.h"

#include "framework/parallel/between_ranks.h"
#include "framework/parallel/exchange_sync.h"

namespace ndtrain {

DataParallel::DataParallel(Model model, std::vector<std::string> trainable, const Device& device,
                           TrainerConfig config, std::unique_ptr<Communicator> communicator,
                           const Options& options)
    : communicator_(std::move(communicator)) {
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
    auto sync = std::make_unique<ExchangeSync>(shared, *communicator_,
                                               options.plan(shared.parameters), first);
    if (options.native) sync->use_native_collectives();
    sync_ = sync.get();
    return sync;
  };
  trainer_ =
      std::make_unique<Trainer>(std::move(model), std::move(trainable), device, config, make_sync);
}

DataParallel::~DataParallel() = default;

bool DataParallel::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  return trainer_->train_epoch(data, result, [&](int64_t done, int64_t total) {
    if (on_step && !on_step(done, total)) sync_->ask_to_stop();
    return !sync_->is_stopped();
  });
}

double DataParallel::exposed_s() const { return sync_->exposed_s(); }

void DataParallel::barrier() { ndtrain::barrier(*communicator_); }

}  // namespace ndtrain
