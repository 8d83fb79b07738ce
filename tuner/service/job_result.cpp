#include "tuner/service/job_result.h"

#include <fmt/format.h>

#include <vector>

#include "framework/core/json.h"
#include "tuner/jobs/store_choice.h"
#include "tuner/service/store_wait.h"

namespace ndtrain::tuner {
using namespace ndp;

MissingData missing_data(const JobSpec& spec, const RowIngest& ingest, const StoreRegistry& stores,
                         const PhotoTrash& trash) {
  Json json = Json::object();
  std::string text;
  const std::vector<UnavailableStore> apart =
      left_out(spec.stores, standing(stores, spec, {}), ingest.stores());
  for (const UnavailableStore& s : apart) {
    json["left_out_stores"].push_back({{"store", s.name}, {"photos", s.photos}, {"why", s.why}});
  }
  if (!apart.empty()) text = "without " + text_of(apart);
  uint64_t photos = ingest.unreadable();
  for (uint32_t run = 0; run <= ingest.manifest().runs(); ++run) {
    for (const uint64_t number : ingest.absent(run)) {
      photos += !trash.hides(ingest.manifest().entry(number).digest);
    }
  }
  if (photos > 0) {
    json["left_out"] = photos;
    text += fmt::format("{}without {} photo{} of its stores: unreadable, or lost with a store",
                        text.empty() ? "" : "; ", photos, photos == 1 ? "" : "s");
  }
  return {json_text(json), text};
}

std::string why_it_waits(uint64_t job, Promote promote, const JobOutcome& outcome,
                         const std::optional<PublishedModel>& in_force) {
  if (promote == Promote::kNever) return "it was submitted as a candidate";
  if (promote == Promote::kAlways || !in_force) return "";
  if (!outcome.instead_of) return outcome.why.empty() ? "the rule says nothing of it" : outcome.why;
  if (in_force->version == *outcome.instead_of || in_force->job == job) return "";
  return fmt::format("version {} was put in force meanwhile, with which it was not compared ({})",
                     in_force->version, outcome.figures);
}

}  // namespace ndtrain::tuner
