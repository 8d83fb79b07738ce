#include "ndp/pipestore/online_labeler.h"

#include <map>

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
    const std::lock_guard alone(n.running());
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

std::vector<std::shared_ptr<const OnlineModels>> OnlineLabeler::models() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

std::shared_ptr<OnlineModel> OnlineLabeler::model(std::string_view task) const {
  for (const auto& sharing : models()) {
    for (const auto& model : *sharing) {
      if (model->task == task) return model;
    }
  }
  return nullptr;
}

// Photos on their way keep the models that they were decoded for.
void OnlineLabeler::put_in_force(const std::string& task, std::shared_ptr<OnlineModel> model) {
  std::map<std::string, std::shared_ptr<OnlineModel>> of_tasks;
  const std::lock_guard lock(mutex_);
  for (const auto& sharing : models_) {
    for (const auto& m : *sharing) of_tasks[m->task] = m;
  }
  of_tasks.erase(task);
  if (model) of_tasks[task] = std::move(model);
  std::map<std::string, OnlineModels> by_extractor;
  for (const auto& [name, m] : of_tasks) {
    by_extractor[m->head.empty() ? m->extractor + name : m->extractor].push_back(m);
  }
  models_.clear();
  for (auto& [extractor, models] : by_extractor) {
    models_.push_back(std::make_shared<const OnlineModels>(std::move(models)));
  }
}

std::future<OnlineLabeler::Labelled> OnlineLabeler::label(
    std::shared_ptr<const OnlineModels> models, std::string crop) {
  Item item{.model = std::move(models), .crop = std::move(crop), .done = {}};
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

std::vector<std::string> OnlineLabeler::extract(OnlineModel& model,
                                                const std::vector<Item>& items) {
  Network& n = *model.network;
  const std::lock_guard alone(n.running());
  std::vector<std::string_view> crops;
  for (const Item& i : items) crops.push_back(i.crop);
  return n.rows(infer_crops(n.plans(), n.preprocess(), crops), items.size());
}

void OnlineLabeler::infer(std::vector<Item>& items) const {
  size_t done = 0;
  try {
    const OnlineModels& models = *items[0].model;
    std::vector<std::string> rows = extract(*models[0], items);
    std::vector<std::vector<std::vector<ClassScore>>> top;
    for (const auto& model : models) {
      const std::lock_guard alone(model->network->running());
      top.push_back(model->network->classify(rows, options_.classes));
    }
    for (; done < items.size(); ++done) {
      Item& i = items[done];
      Labelled labelled{.crop = std::move(i.crop)};
      for (auto& of_model : top) labelled.top.push_back(std::move(of_model[done]));
      if (models[0]->network->has_features()) labelled.feature = std::move(rows[done]);
      i.done.set_value(std::move(labelled));
    }
  } catch (...) {
    for (; done < items.size(); ++done) items[done].done.set_exception(std::current_exception());
  }
}

}  // namespace ndtrain::ndp
