// The jobs there are.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "ndp/labels/label_db.h"
#include "tuner/work/finetune_work.h"
#include "tuner/work/label_work.h"

namespace ndtrain::tuner {
using namespace ndp;

class DefaultJobFactory final : public JobFactory {
 public:
  // `labels`: the url of the label database, opened when a relabel first needs it; "": none.
  DefaultJobFactory(const JobContext& context, const Versions& versions, std::string labels)
      : context_(context), versions_(versions), labels_(std::move(labels)) {}

  std::unique_ptr<JobWork> make(uint64_t job, const JobSpec& spec, const std::string& directory,
                                Progress& progress) override;
  // The label database, opened the first time. From any thread; throws Error, SinkUnavailable.
  LabelDb& labels();
  // What people have said of photos of the collection, of the task, if there is a database. From
  // any thread; throws Error, SinkUnavailable.
  std::vector<PhotoClaim> truths(const std::string& collection_name, const std::string& task_name);

 private:
  LabelDb* existing_labels();  // null: there are none
  PublishedModel model_of(const JobSpec& spec, const std::string& directory) const;

  JobContext context_;
  const Versions& versions_;
  std::string labels_;
  std::mutex mutex_;  // of db_
  std::unique_ptr<LabelDb> db_;
};

}  // namespace ndtrain::tuner
