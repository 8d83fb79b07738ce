// What the job in progress does with rows and what it asks, as functions that have no state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tuner/ingest/row_ingest.h"
#include "tuner/ingest/row_sink.h"
#include "tuner/jobs/job_spec.h"
#include "tuner/jobs/job_work.h"

namespace ndtrain::tuner {

// Rows that a sink is given at once, but for a message that has more: what comes while it makes
// them durable must not be so much that the stores then wait for it.
inline constexpr size_t kRowsAtOnce = 50'000;

// What the stores are asked, but for which photos are left out. `seed` draws the photos of which
// their features are compared.
IngestRules ingest_rules(uint64_t job, const JobSpec& spec, const RowRequest& request,
                         uint64_t seed);

// The first of what waits, at most kRowsAtOnce rows, or one message.
std::vector<RowIngest::Rows> take_some(std::vector<RowIngest::Rows>& waiting);

struct KeptRows {
  std::vector<std::pair<uint64_t, std::vector<RowIngest::BadRow>>>
      tickets;  // each with its bad rows
  uint64_t rows = 0;
};
// On a lane. Throws SinkUnavailable, Error.
KeptRows keep(RowSink& sink, const std::vector<RowIngest::Inventory>& inventories,
              const std::vector<RowIngest::Rows>& rows);

// A line for people where features are larger than the photos that they are made of; "" else.
std::string larger_than_photos(const JobSpec& spec, size_t row_bytes,
                               const std::vector<RowIngest::Inventory>& inventories);

}  // namespace ndtrain::tuner
