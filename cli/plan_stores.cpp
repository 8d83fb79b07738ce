#include "cli/plan_stores.h"

#include <fmt/format.h>

#include "cli/auto_profile.h"
#include "cli/plan_tables.h"
#include "cli/tuner_stores.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

// Of the first stores, of as many as is said of them.
Json by_store(const std::vector<std::string>& stores, const std::vector<double>& of_each) {
  Json json = Json::object();
  for (size_t s = 0; s < of_each.size(); ++s) json[stores.at(s)] = of_each[s];
  return json;
}

}  // namespace

StoreCover stores_for_plan(Context& context, const TunerClient& tuner, const Json& job,
                           Profile& profile) {
  const auto collection = job["collection"].get<std::string>();
  const TunerStores known = stores_known_to(tuner, collection);
  const Json plan = tuner.post("/jobs/plan?unchecked=1", json_text(job));
  StoreCover cover = cover_in(plan, known, profile.inputs);
  if (!plan.contains("enough")) {
    throw Error(
        "--from-tuner: the Tuner is of an earlier version, which says too little of its stores; "
        "upgrade it, or give --photo-count, --stores and --bandwidth");
  }
  if (cover.stores.empty()) {
    throw Error("--from-tuner: no store of the collection ", collection, " is here; ", known.number,
                known.number == 1 ? " is" : " are",
                " known and away (ndtrain store ls lists all), and --collection names another");
  }
  for (const Json& away : plan["waits_for"]) {
    context.progress().say(
        fmt::format("the plan is without store {}, for which a job would wait: {}",
                    away["store"].get<std::string>(), away["why"].get<std::string>()));
  }
  const bool once = cover.distinct > 0;
  profile.set(
      profile.inputs.photos, once ? cover.distinct : plan["photos"].get<double>(),
      once ? "known to the Tuner, each counted once" : "known to the Tuner, copies counted");
  profile.inputs.stores = counts_of(cover);
  put_links(known, profile);
  return cover;
}

Json to_json(const StoreCover& cover, const PlanInputs& in) {
  return {{"stores", cover.stores},
          {"enough", cover.enough},
          {"photos", by_store(cover.stores, in.held)},
          {"speeds", by_store(cover.stores, in.speeds)},
          {"links", by_store(cover.stores, in.links)},
          {"kept", in.kept}};
}

std::string store_lines(const StoreCover& cover, const PlanInputs& in) {
  std::string text = fmt::format(
      "stores of the Tuner, those that are needed first: {} of {} have "
      "all photos\n",
      cover.enough, cover.stores.size());
  for (size_t s = 0; s < in.held.size(); ++s) {
    text += fmt::format("  {}: {:.0f} photos", cover.stores[s], in.held[s]);
    if (s < in.speeds.size()) text += fmt::format(", {:.2f} x the mean speed", in.speeds[s]);
    const double link = s < in.links.size() ? in.links[s] : 0;
    text += link > 0 ? ", " + bits_text(link) + "\n" : ", its link is not measured\n";
  }
  for (const auto& [cut, photos] : in.kept) {
    text += fmt::format(
        "features of {:.0f} photos at {} are at the Tuner: they are not sent again\n", photos, cut);
  }
  return text;
}

}  // namespace ndtrain::cli
