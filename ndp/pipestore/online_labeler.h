// Labels photos one by one as they are uploaded: what comes at about the same time is one batch.
// Every photo is labelled by one version of each task as a whole: that which was in force when it
// was decoded. Tasks with one extractor share what it makes of the photo.
// A new version is loaded and warmed up beside the old one, and takes its place for the photos that
// are decoded from then on.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ndp/labels/label_db.h"
#include "ndp/pipestore/batch_queue.h"
#include "ndp/pipestore/network.h"

namespace ndtrain::ndp {

// A version that is ready to run.
struct OnlineModel {
  std::string task = std::string(kDefaultTask);
  uint64_t version = 0;         // the Tuner's number
  std::string extractor, head;  // SHA-256 of its files; the head may be ""
  std::unique_ptr<Network> network;
};

// One of each of some tasks, all with the same extractor. Of a model without a head, that one
// alone.
using OnlineModels = std::vector<std::shared_ptr<OnlineModel>>;

// Runs plans for each size of batch once, as the first runs take longest.
void warm_up(OnlineModel& model, size_t batch);

class OnlineLabeler {
 public:
  struct Options {
    size_t batch = 32;
    std::chrono::microseconds max_delay{5000};
    int64_t classes = 5;  // the best so many
  };
  struct Labelled {
    std::vector<std::vector<ClassScore>> top;  // of each of the models, best first
    std::string crop, feature;                 // feature: "" when the model is one whole
  };
  // That a photo is about to come, while this lives.
  class Coming {
   public:
    explicit Coming(OnlineLabeler& online) : online_(online) { ++online_.coming_; }
    ~Coming() { online_.came(); }
    Coming(const Coming&) = delete;
    Coming& operator=(const Coming&) = delete;

   private:
    OnlineLabeler& online_;
  };

  explicit OnlineLabeler(const Options& options);
  ~OnlineLabeler();  // labels what waits

  // What is in force, by extractor; one model for each task that has any.
  std::vector<std::shared_ptr<const OnlineModels>> models() const;
  std::shared_ptr<OnlineModel> model(std::string_view task) const;  // null: none is in force
  // Of its task from now on; null: none is.
  void put_in_force(const std::string& task, std::shared_ptr<OnlineModel> model);

  // `crop`: of the models' preprocessing. The future throws what a model throws.
  std::future<Labelled> label(std::shared_ptr<const OnlineModels> models, std::string crop);

  struct Counts {
    int64_t photos = 0, batches = 0;
  };
  Counts counts() const;

 private:
  struct Item {
    std::shared_ptr<const OnlineModels> model;
    std::string crop;
    std::promise<Labelled> done;
  };
  void came();
  void run();
  static std::vector<std::string> extract(OnlineModel& model, const std::vector<Item>& items);
  void infer(std::vector<Item>& items) const;

  const Options options_;
  std::atomic<int> coming_ = 0;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<std::shared_ptr<const OnlineModels>> models_;
  BatchQueue<Item> queue_;
  Counts counts_;
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace ndtrain::ndp
