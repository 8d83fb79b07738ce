// The model versions that the Tuner has published, in STATE/versions.json. The newest is in force.
#pragma once

#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"

namespace ndtrain {

// The files of a model that runs on stores, and what it tells apart.
struct PublishedModel {
  uint64_t version = 0;  // from 1
  Digest content{};      // of the whole: ModelFile::id()
  Digest extractor{};    // SHA-256 of the files
  Digest head{};         // equal to the extractor: the whole model is one file
  std::vector<std::string> classes;
  int64_t created = 0;         // Unix seconds
  std::string metrics = "{}";  // JSON
  uint64_t job = 0;            // that trained it
};

class Versions {
 public:
  // Throws Error when the file cannot be read.
  Versions(Fs& fs, std::string path);

  const std::vector<PublishedModel>& all() const { return all_; }
  const PublishedModel* in_force() const { return all_.empty() ? nullptr : &all_.back(); }
  const PublishedModel* find(uint64_t version) const;
  const PublishedModel* of_job(uint64_t job) const;
  // Gives it the next number; durable on return.
  Result<PublishedModel> add(PublishedModel model);

 private:
  Fs& fs_;
  std::string path_;
  std::vector<PublishedModel> all_;
};

}  // namespace ndtrain
