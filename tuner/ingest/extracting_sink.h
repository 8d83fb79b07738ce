// Features made on the Tuner, of photos or crops that stores send, or of photos that it has itself;
// they go to the spool.
#pragma once

#include <string>
#include <vector>

#include "framework/runtime/devices.h"
#include "ndp/engine/engine.h"
#include "ndp/jobs/model_file.h"
#include "tuner/ingest/spool.h"

namespace ndtrain::tuner {
using namespace ndp;

// The frozen part, ready to run. One thread.
class TunerExtractor {
 public:
  // `spool` and `decoder` must outlive it; null: this process decodes photos.
  TunerExtractor(const ModelFile& extractor, const Device& device, Spool& spool,
                 PhotoDecoder* decoder);

  const Preprocess& preprocess() const { return model_.preprocess; }

  struct Item {
    uint64_t number = 0;  // in the manifest
    Digest photo{};
  };
  // Rows of `items` into the spool, not yet durable; `open(i)` is the photo file of items[i],
  // `name` what it is called. What cannot be read comes back.
  Result<std::vector<RowIngest::BadRow>> photos(std::span<const Item> items,
                                                const std::function<std::string(size_t)>& name,
                                                const Engine::Open& open);
  // The same from crops.
  Result<std::vector<RowIngest::BadRow>> crops(std::span<const Item> items,
                                               std::span<const std::string_view> crops);

 private:
  // Features that are not finite are no use: the item is `bad` then.
  Status put(const Item& item, const std::vector<Tensor>& outputs, size_t row,
             std::vector<RowIngest::BadRow>& bad);

  ModelFile model_;
  BatchPlans plans_;
  Engine engine_;
  Spool& spool_;
};

class ExtractingSink final : public RowSink {
 public:
  // `rows`: FILES, CROPS or PACKED_CROPS.
  ExtractingSink(wire::Job::Rows rows, TunerExtractor& extractor, Spool& spool)
      : rows_(rows), extractor_(extractor), spool_(spool) {}

  Result<std::vector<uint64_t>> open(const Manifest& manifest) override;
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override;

 private:
  wire::Job::Rows rows_;
  TunerExtractor& extractor_;
  Spool& spool_;
  const Manifest* manifest_ = nullptr;
};

}  // namespace ndtrain::tuner
