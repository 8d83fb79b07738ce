// A PipeStore's computer: the real service, over photos that are only digests.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ndp/pipestore/service.h"
#include "tests/sim/machine.h"
#include "tests/sim/network.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

class StoreMachine final : public Machine {
 public:
  StoreMachine(Timeline& timeline, uint64_t seed, Network& network, const Collection& collection,
               size_t number, Bug bug);
  ~StoreMachine() override;

  void handle(LinkEvent<wire::ToStore> event);
  void stop(Time back_after);  // SIGTERM
  // A person uploads a photo, or says for the n-th time what it shows. What is answered is told to
  // `promised`.
  void upload(uint64_t photo, uint64_t n, const std::function<void()>& promised);
  bool was_deleted(const Digest& photo) const;
  bool hides(const Digest& photo) const { return trash_ && trash_->has(photo); }
  bool outbox_empty() const { return log_ && log_->counts().unacknowledged == 0; }
  static Digest uploaded(size_t store, uint64_t photo) {
    return sha256("upload " + std::to_string(store) + " " + std::to_string(photo));
  }
  uint64_t version_in_force() const { return service_ ? service_->in_force().version : 0; }

 private:
  class Maker;

  Status forget(std::span<const Digest> photos);

  void start() override;
  void end() override;
  void after_turn() override;
  bool may_die_when_full() const override { return true; }

  Network& network_;
  const Collection& collection_;
  size_t number_;
  Bug bug_;
  std::unique_ptr<StateDirectory> state_;
  std::unique_ptr<Maker> producer_;
  std::unique_ptr<UploadLog> log_;
  std::unique_ptr<StoreTrash> trash_;
  std::unique_ptr<PipeStoreService> service_;
};

}  // namespace ndtrain::sim
