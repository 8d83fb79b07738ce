// Photos by number, as stores would name them.
#pragma once

#include <string>
#include <vector>

#include "tuner/ingest/manifest.h"

namespace ndtrain::testing {
using namespace ndp;
using namespace tuner;

inline PhotoClaim claim(int photo, std::string label, LabelSource source = LabelSource::kFolder) {
  return {sha256("photo " + std::to_string(photo)), std::move(label), source};
}

// Photos [begin, end) of five classes.
inline std::vector<PhotoClaim> claims(int begin, int end) {
  std::vector<PhotoClaim> all;
  for (int i = begin; i < end; ++i) all.push_back(claim(i, "class " + std::to_string(i % 5)));
  return all;
}

}  // namespace ndtrain::testing
