#include "ndp/pipestore/online_labeler.h"

#include "ndp/engine/crops.h"

namespace ndtrain::ndp {
namespace {

std::chrono::nanoseconds now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

void warm_up(OnlineModel& model, size_t batch) {
  Network& n = *model.network;
  const std::string grey(n.preprocess().values(), '\x7f');
  for (size_t size = 1;; size = std::min(2 * size, batch)) {
    const std::vector<std::string_view> crops(size, grey);
    (void)n.classify(n.rows(infer_crops(n.plans(), n.preprocess(), crops), size), 1);
    if (size >= batch) return;
  }
}

OnlineLabeler::OnlineLabeler(const Options& options)
    : options_(options), queue_(options.batch, options.max_delay), thread_([this] { run(); }) {}

OnlineLabeler::~OnlineLabeler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

std::shared_ptr<OnlineModel> OnlineLabeler::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

void OnlineLabeler::put_in_force(std::shared_ptr<OnlineModel> model) {
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
}

std::future<OnlineLabeler::Labelled> OnlineLabeler::label(std::shared_ptr<OnlineModel> model,
                                                          std::string crop) {
  Item item{.model = std::move(model), .crop = std::move(crop), .done = {}};
  std::future<Labelled> future = item.done.get_future();
  {
    const std::lock_guard lock(mutex_);
    queue_.add(now(), std::move(item));
  }
  changed_.notify_all();
  return future;
}

// The lock, so that the thread does not miss it between looking and waiting.
void OnlineLabeler::came() {
  if (--coming_ > 0) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

OnlineLabeler::Counts OnlineLabeler::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void OnlineLabeler::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::vector<Item> items = queue_.take(now(), coming_ > 0 && !stopping_);
    if (!items.empty()) {
      lock.unlock();
      infer(items);
      lock.lock();
      counts_.photos += static_cast<int64_t>(items.size());
      ++counts_.batches;
    } else if (!queue_.empty()) {
      changed_.wait_until(lock, std::chrono::steady_clock::time_point(queue_.next()));
    } else if (stopping_) {
      return;
    } else {
      changed_.wait(lock);
    }
  }
}

void OnlineLabeler::infer(std::vector<Item>& items) const {
  size_t done = 0;
  try {
    const std::lock_guard alone(items[0].model->running);
    Network& n = *items[0].model->network;
    std::vector<std::string_view> crops;
    for (const Item& i : items) crops.push_back(i.crop);
    std::vector<std::string> rows =
        n.rows(infer_crops(n.plans(), n.preprocess(), crops), items.size());
    std::vector<std::vector<ClassScore>> top = n.classify(rows, options_.classes);
    for (; done < items.size(); ++done) {
      Item& i = items[done];
      i.done.set_value({.top = std::move(top[done]),
                        .crop = std::move(i.crop),
                        .feature = n.has_features() ? std::move(rows[done]) : ""});
    }
  } catch (...) {
    for (; done < items.size(); ++done) items[done].done.set_exception(std::current_exception());
  }
}

}  // namespace ndtrain::ndp
