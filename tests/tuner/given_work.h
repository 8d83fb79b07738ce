// Work that ends as a test says.
#pragma once

#include "tuner/service/service.h"

namespace ndtrain::testing {
using namespace ndp;
using namespace tuner;

// Gives what the test says, from one photo that the Tuner has itself.
struct GivenWork final : JobWork, RowSink {
  explicit GivenWork(const std::function<JobOutcome()>& f) : finish_(f) {}
  RowRequest prepare() override {
    const PhotoClaim photo{.digest = sha256("a photo"), .label = "rose"};
    return {.row_bytes = 4, .local = std::vector{photo}};
  }
  RowSink& sink() override { return *this; }
  void manifest(const Manifest&, const std::vector<std::string>&) override {}
  bool run(uint32_t) override { return true; }
  JobOutcome finish() override { return finish_(); }
  Result<std::vector<uint64_t>> open(const Manifest&) override { return std::vector<uint64_t>(); }
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows>) override {
    return std::vector<RowIngest::BadRow>();
  }
  const std::function<JobOutcome()>& finish_;
};
struct GivenWorks final : JobFactory {
  std::unique_ptr<JobWork> make(uint64_t, const JobSpec&, const std::string&, Progress&) override {
    return std::make_unique<GivenWork>(finish);
  }
  std::function<JobOutcome()> finish;
};

}  // namespace ndtrain::testing
