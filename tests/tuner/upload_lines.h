// What stores say of uploads, line by line.
#pragma once

#include <string>

#include "ndp/wire/digests.h"
#include "ndp/wire/wire.pb.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner::upload_lines {
using namespace ndp;

inline PublishedModel model_of(uint64_t version) {
  const std::string v = std::to_string(version);
  return {.version = version,
          .content = sha256("whole " + v),
          .extractor = sha256("extractor " + v),
          .head = sha256("head " + v),
          .classes = {"rose", "tulip", "daisy"},
          .created = static_cast<int64_t>(version)};
}

inline wire::Upload line(uint64_t sequence, int photo) {
  const std::string name = "photo " + std::to_string(photo);
  wire::Upload u;
  u.set_sequence(sequence);
  u.set_digest(bytes_of(sha256(name)));
  u.set_path("uploads/" + name);
  u.set_time(1000 + static_cast<int64_t>(sequence));
  return u;
}

inline wire::Upload labelled(uint64_t sequence, int photo, uint64_t version,
                             const std::string& name) {
  wire::Upload u = line(sequence, photo);
  u.set_version(version);
  u.set_extractor(bytes_of(model_of(version).extractor));
  u.set_head(bytes_of(model_of(version).head));
  for (const std::string& n : {name, std::string("daisy")}) {
    u.add_top()->set_name(n);
    u.mutable_top(u.top_size() - 1)->set_score(.5F);
  }
  return u;
}

inline wire::Upload truth(uint64_t sequence, int photo, const std::string& name) {
  wire::Upload u = line(sequence, photo);
  u.set_truth(name);
  return u;
}

}  // namespace ndtrain::tuner::upload_lines
