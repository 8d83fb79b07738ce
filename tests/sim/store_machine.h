// A PipeStore's computer: the real service, over photos that are only digests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ndp/pipestore/service.h"
#include "tests/sim/machine.h"
#include "tests/sim/network.h"
#include "tests/sim/upload_labels.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

class StoreMachine final : public Machine {
 public:
  StoreMachine(Timeline& timeline, uint64_t seed, Network& network, const Collection& collection,
               size_t number, Bug bug);
  ~StoreMachine() override;

  // Before it is booted: its photos are in this collection, what is uploaded is labelled here, and
  // jobs get uploads too, or not.
  void join(std::string collection, bool uploads_in_jobs);

  void handle(LinkEvent<wire::ToStore> event);
  void stop(Time back_after);  // SIGTERM
  // A person uploads a photo, or says for the n-th time what it shows. What is answered is told to
  // `promised`.
  void upload(uint64_t photo, uint64_t n, const std::function<void()>& promised);
  // The same where uploads are labelled here; what is answered, and for the second when it was
  // said, is told.
  void take(const Digest& photo, const std::function<void()>& promised);
  void say(const Digest& photo, const std::string& task, const std::string& class_name,
           const std::function<void(int64_t time)>& promised);
  std::vector<StorePhoto> uploads() const;  // that are here, by number; of a store that is up
  const UploadLog& log() const { return *log_; }
  const std::string& collection() const { return library_; }
  bool was_deleted(const Digest& photo) const;
  bool hides(const Digest& photo) const { return trash_ && trash_->has(photo); }
  bool outbox_empty() const { return log_ && log_->counts().unacknowledged == 0; }
  static const Digest& uploaded(size_t store, uint64_t photo);
  static constexpr uint64_t kUploads = 20;  // different ones, at most
  uint64_t version_in_force(std::string_view task = kDefaultTask) const {
    if (!service_) return 0;
    const auto of_task = service_->in_force().find(task);
    return of_task == service_->in_force().end() ? 0 : of_task->second.version;
  }

 private:
  class Maker;

  Status forget(std::span<const Digest> photos);
  bool holds(const Digest& photo) const;

  void start() override;
  void end() override;
  void after_turn() override;
  bool may_die_when_full() const override { return true; }

  Network& network_;
  const Collection& collection_;
  size_t number_;
  Bug bug_;
  std::string library_;  // its collection; "": nobody labels what is uploaded
  bool uploads_in_jobs_ = false;
  std::unique_ptr<StateDirectory> state_;
  std::unique_ptr<Maker> producer_;
  std::unique_ptr<UploadLog> log_;
  std::unique_ptr<StoreTrash> trash_;
  std::unique_ptr<UploadLabels> labels_;
  std::unique_ptr<PipeStoreService> service_;
};

}  // namespace ndtrain::sim
