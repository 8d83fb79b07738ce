// The demo's Tuner and PipeStores: a Site that is asked as people ask it, over HTTP. One thread.
// Everything throws Error with what went wrong.
#pragma once

#include <map>
#include <set>
#include <string>

#include "cli/site.h"
#include "cli/tuner_client.h"
#include "ndp/labels/label_db.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

// A label that a model gave to a photo.
struct DemoLabel {
  std::string class_name;
  double score = 0;
};

class DemoSite {
 public:
  // Up when this returns; the photos are in photos_of(store), a directory per class.
  DemoSite(Context& context, const std::string& directory, int64_t stores);
  ~DemoSite();  // down

  static std::string photos_of(const std::string& directory, int64_t store);

  const std::string& http() const { return site_.http(); }
  const std::string& labels() const { return labels_; }  // url of the database

  // Submits it and waits until it is done; the job as GET /jobs/N gives it.
  Json run(JobSpec spec, const std::string& model = "");
  // Until all stores have the newest version in force.
  void await_version(uint64_t version);
  // That each store fetched so far, added up over the stores.
  uint64_t model_bytes();

  // The photo's id. A store labels it when it comes.
  std::string upload(const std::string& bytes);
  void say_truth(const std::string& id, const std::string& class_name);

  // What the version in force says of these photos; asked again until it has said so of all.
  std::map<std::string, DemoLabel> labels_of(const std::set<std::string>& ids);
  LabelDiff diff();  // from the version before to the newest

 private:
  void await(const std::string& what, const std::function<bool()>& done);
  LabelDb& db();

  Context& context_;
  Site site_;
  const int64_t stores_;
  std::string labels_;
  std::unique_ptr<TunerClient> tuner_;
  std::unique_ptr<LabelDb> db_;
  std::map<std::string, std::string> store_of_;  // photo: the address that took it
};

}  // namespace ndtrain::cli
