// The stores that the Tuner knows, which of them take part in a job, and whom it waits for.
#include <fmt/format.h>

#include <algorithm>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "tuner/service/service.h"

namespace ndtrain {
namespace {

// Who is only slower than others is not worth a line. From one line about whom a job waits for to
// the next: every few seconds, and less often the longer it waits.
constexpr TunerService::Time kSayAfter = std::chrono::seconds(2);
constexpr TunerService::Time kSayEvery = std::chrono::seconds(5);
constexpr int kShareOfWait = 8;

TunerService::Time seconds(double s) {
  return std::chrono::duration_cast<TunerService::Time>(std::chrono::duration<double>(s));
}

std::string names_of(const std::map<std::string, StoreRecord>& stores) {
  std::string names;
  for (const auto& [name, store] : stores) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

}  // namespace

std::vector<StoreRecord> TunerService::stores() const {
  std::vector<StoreRecord> all = stores_.as_of_now();
  for (StoreRecord& store : all) store.deletions_due = deletions_.due(store);
  return all;
}

void TunerService::drain(const std::string& name, bool drained) {
  if (!stores_.drain(name, drained)) return;
  const StoreRecord& store = stores_.record(name);
  if (!store.here || !active_ || !active_->intake || active_->local) return;
  if (drained) return apply(active_, name, active_->intake->leave(now(), name));
  if (has_part(*active_, store)) apply(active_, name, active_->intake->arrive(now(), name));
}

void TunerService::forget(const std::string& name) {
  stores_.forget(name);
  holders_.forget(name);
}

// A name that was mistyped would be waited for in vain.
void TunerService::check_stores(const JobSpec& spec) const {
  for (const std::string& name : spec.stores.names) {
    if (stores_.all().contains(name)) continue;
    throw Error("this Tuner has met no store '", name, "'; it knows ", names_of(stores_.all()));
  }
}

bool TunerService::has_part(const Active& job, const StoreRecord& store) const {
  return job.intake && !job.local && !store.drained &&
         records_.job(job.id).spec.stores.includes(store.name);
}

std::vector<StoreStanding> TunerService::standing(const Active& job) const {
  const std::vector<std::string> ready =
      job.intake->has_manifest() ? std::vector<std::string>() : job.intake->ready();
  std::vector<StoreStanding> all;
  for (const auto& [name, s] : stores_.all()) {
    all.push_back({.name = name,
                   .photos = s.photos,
                   .here = s.here,
                   .drained = s.drained,
                   .ready = std::ranges::binary_search(ready, name),
                   .away = s.away});
  }
  return all;
}

const StoreChoice* TunerService::waits_for(uint64_t job) const {
  return active_ && active_->id == job && !active_->said.empty() ? &active_->choice : nullptr;
}

void TunerService::start_now(uint64_t id) {
  const JobRecord& record = records_.job(id);
  const bool begun = active_ && active_->id == id && active_->intake &&
                     (active_->local || active_->intake->has_manifest());
  const bool waiting = record.state == JobState::kQueued || record.state == JobState::kRunning;
  if (!waiting || begun) {
    throw Error("job ", id, " waits for no store: it is ",
                begun ? "at work" : name_of(record.state));
  }
  if (record.spec.deterministic) {
    throw Error("job ", id,
                " is deterministic: its result depends on the stores that take part; "
                "cancel it, and resume it with --stores and the names of those meant");
  }
  start_now_.insert(id);
  records_.note(id, "begins without waiting for stores that are not ready, on request");
  choose();
}

// The job in progress begins when it waits for no store any more.
void TunerService::choose() {
  const ActivePtr job = active_;
  if (!job || !job->intake || job->local || job->intake->has_manifest()) return;
  const JobSpec& spec = records_.at(job->id).spec;
  job->choice = choose_stores(spec.stores, standing(*job), seconds(spec.store_timeout),
                              start_now_.contains(job->id));
  const StoreChoice& c = job->choice;
  const bool known = std::ranges::any_of(
      spec.stores.names, [&](const std::string& name) { return stores_.all().contains(name); });
  if (spec.deterministic && !c.left_out.empty()) {
    return end(job, JobState::kFailed,
               "not all stores take part, on which a deterministic result depends: without " +
                   text_of(c.left_out) +
                   "; bring them here, ndtrain store forget those that are gone for good, or name "
                   "those meant with --stores");
  }
  if (!spec.stores.names.empty() && !known) {
    return end(job, JobState::kFailed,
               "none of its stores is known any more: " + text_of(c.left_out));
  }
  if (c.waits()) return say_waits(job, c.text());
  job->said.clear();
  if (!c.left_out.empty()) records_.note(job->id, "begins without " + text_of(c.left_out));
  const std::vector<std::string> take = c.take;
  apply(job, "", job->intake->count_in(take));
}

// From the first line on, at once when it is for others than before.
void TunerService::say_waits(const ActivePtr& job, const std::string& whom) {
  const auto names = [](const StoreChoice& c) {
    std::string all;
    for (const StoreApart& s : c.waits_for) all += s.name + " ";
    return all + std::to_string(c.strangers) + (c.take.empty() ? "" : "+");
  };
  const bool first = job->said.empty();
  if (first) job->waits_since = now();
  job->said = "waits for " + whom;
  if (now() < job->waits_since + kSayAfter) return;
  const std::string for_whom = names(job->choice);
  if (for_whom == job->said_of && now() < job->say_at) return;
  job->said_of = for_whom;
  const bool without = !job->choice.take.empty() && !records_.at(job->id).spec.deterministic;
  const std::string hint =
      without ? fmt::format("; ndtrain job start-now {} goes on without", job->id) : "";
  records_.note(job->id, job->said + hint);
  job->say_at = now() + std::max(kSayEvery, (now() - job->waits_since) / kShareOfWait);
}

TunerService::LeftOut TunerService::left_out(const Active& job) const {
  if (job.local) return {};
  Json json = Json::object();
  std::string text;
  const std::vector<StoreApart> apart =
      ndtrain::left_out(records_.job(job.id).spec.stores, standing(job), job.intake->stores());
  for (const StoreApart& s : apart) {
    json["left_out_stores"].push_back({{"store", s.name}, {"photos", s.photos}, {"why", s.why}});
  }
  if (!apart.empty()) text = "without " + text_of(apart);
  uint64_t photos = job.intake->unreadable();
  for (uint32_t run = 0; run <= job.intake->manifest().runs(); ++run) {
    for (const uint64_t number : job.intake->absent(run)) {
      photos += !deletions_.has(job.intake->manifest().entry(number).digest);
    }
  }
  if (photos > 0) {
    json["left_out"] = photos;
    text += fmt::format("{}without {} photo{} of its stores: unreadable, or lost with a store",
                        text.empty() ? "" : "; ", photos, photos == 1 ? "" : "s");
  }
  return {json_text(json), text};
}

}  // namespace ndtrain
