#include "tuner/service/job_ingest.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <utility>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "ndp/wire/digests.h"
#include "tuner/service/job_rows.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

uint64_t job_of(const wire::FromStore& m) {  // 0: it is about none
  return m.has_inventory()  ? m.inventory().job()
         : m.has_rows()     ? m.rows().job()
         : m.has_run_done() ? m.run_done().job()
         : m.has_refused()  ? m.refused().job()
                            : 0;
}

// A file that is no photo is known by where it is.
std::string key_of(const UnreadablePhoto& p) {
  return p.photo ? to_hex(*p.photo) : p.store + "/" + p.path;
}

// It would leave out what it is asked of them, and send photos as they are.
std::string makes_no_views(const StoreRecord& store) {
  return fmt::format(
      "store {} runs ndtrain {}, which makes no views of photos: upgrade it, let it take no part "
      "(ndtrain store drain {}), or leave views away",
      store.name, store.version, store.name);
}

std::string tells_no_hashes(const StoreRecord& store) {
  return fmt::format(
      "store {} runs ndtrain {}, which does not say which photos look the same: upgrade it, let it "
      "take no part (ndtrain store drain {}), or leave group_duplicates away",
      store.name, store.version, store.name);
}

}  // namespace

void JobIngest::begin(const ActivePtr& job, const RowRequest& request) {
  IngestRules rules = ingest_rules(job->id, job->spec, request, ports_.audit_seed + job->id);
  rules.manifest.leave_out = [this](const Digest& photo) { return ports_.trash.hides(photo); };
  job->runs = rules.manifest.runs;
  job->row_bytes = rules.row_bytes * rules.views;
  job->local = request.local.has_value();
  job->records = request.records;
  const JobFiles files = ports_.records.files(job->id, job->records);
  rules.manifest.memory = ports_.memory;
  Result<std::optional<SavedManifest>> kept = files.load_manifest(ports_.memory);
  if (!kept.ok()) return ports_.control.fail(job, kept.status().message());
  auto first = files.load_first();
  if (!first.ok()) return ports_.control.fail(job, first.status().message());
  if (!*kept) first = std::optional<MixedNumerics::First>();  // no row of it has come
  job->numerics.begin({.extractor = digest_of(request.ask.extractor()).value_or(Digest()),
                       .features = request.features,
                       .exact = job->spec.deterministic},
                      std::move(*first));
  for (const std::string& photo : job->numerics.photos()) rules.job.add_sample(photo);
  if (*kept) {
    job->ingest = std::make_unique<RowIngest>(std::move(rules), std::move((*kept)->manifest),
                                              std::move((*kept)->stores), now());
    open_sink(job);
  } else if (request.local) {
    const std::vector<std::vector<PhotoClaim>> photos = {*request.local};
    Manifest manifest(photos, rules.manifest);
    job->ingest = std::make_unique<RowIngest>(std::move(rules), std::move(manifest),
                                              std::vector<std::string>{"tuner"}, now());
    open_sink(job);
  } else {
    job->ingest = std::make_unique<RowIngest>(std::move(rules));
    job->phase = JobPhase::kWaiting;
  }
  for (const std::string& store : ports_.stores.here()) arrive(job, store);
  choose(job);
}

void JobIngest::open_sink(const ActivePtr& job) {
  job->phase = JobPhase::kOpening;
  if (job->records.empty()) {
    const std::string line = larger_than_photos(job->spec, job->row_bytes, job->inventories);
    if (!line.empty()) ports_.records.note(job->id, line);
  }
  ports_.control.start(
      job, job->keep_lane(), [this, job, inventories = std::exchange(job->inventories, {})] {
        for (const RowIngest::Inventory& i : inventories) demand(job->work->sink().inventory(i));
        auto durable = job->work->sink().open(job->ingest->manifest());
        demand(durable.status());
        return [this, job, durable = std::move(*durable)] { sink_opened(job, durable); };
      });
}

// The manifest is kept before any store is asked for anything.
void JobIngest::sink_opened(const ActivePtr& job, const std::vector<uint64_t>& durable) {
  JobFiles kept = ports_.records.files(job->id, job->records);
  const Manifest& manifest = job->ingest->manifest();
  kept.save_manifest(manifest, job->ingest->stores()).or_throw();
  const Result<JobFiles::Closed> closed = kept.closed();
  if (!closed.ok()) return ports_.control.fail(job, closed.status().message());
  job->phase = JobPhase::kRunning;
  job->report.photos(manifest.size(), durable.size());
  ports_.control.start(job, job->job_lane(), [this, job, stores = job->ingest->stores()] {
    job->work->manifest(job->ingest->manifest(), stores);
    return [this, job] {
      job->introduced = true;
      ports_.control.work_on_runs(job);
    };
  });
  std::vector<uint64_t> here = durable;
  if (job->local) {  // made when its run is trained on
    here.resize(manifest.size());
    std::iota(here.begin(), here.end(), uint64_t{0});
  }
  apply(job, "", job->ingest->begin(here, closed->absent));
}

// Why the store cannot be counted in; "" when it is.
std::string JobIngest::admit(const ActivePtr& job, const RowIngest::Inventory& i) {
  StoreRecord& store = ports_.stores.record(i.store);
  store.photos = i.photos->size();
  ports_.stores.keep(store);
  const MixedNumerics::Verdict v = job->numerics.admit(i.store, store.numerics, i.sample);
  if (!v.note.empty()) ports_.records.note(job->id, v.note);
  if (!v.first) return v.refusal;
  return ports_.records.files(job->id, job->records).save_first(job->numerics.first()).message();
}

void JobIngest::send(const ActivePtr& job, const std::string& store, wire::ToStore message) {
  if (message.has_job()) {
    job->asked[store] = ++serials_[store];
    message.mutable_job()->set_serial(serials_[store]);
    if (!job->numerics.asks(ports_.stores.record(store).numerics)) {
      message.mutable_job()->clear_sample();
    }
  }
  ports_.stores.send(store, std::move(message));
}

void JobIngest::apply(const ActivePtr& job, const std::string& store, RowIngest::Actions a) {
  if (job->over) return;
  for (const std::string& line : a.notes) ports_.records.note(job->id, line);
  for (auto& i : a.inventories) {
    if (const std::string why = admit(job, i); !why.empty()) {
      return ports_.control.fail_or_wait(job, why);
    }
    i.sample.clear();
    i.numerics = ports_.stores.record(i.store).numerics;
    ports_.holders.set(i.store, i.photos->photos());
    const auto hidden = [&](const Digest& photo) { return ports_.trash.hides(photo); };
    if (std::ranges::any_of(*i.photos->photos(), hidden)) {
      i.photos = std::make_shared<const PhotoClaims>(i.photos->without(hidden));
    }
    job->inventories.push_back(std::move(i));
  }
  for (auto& rows : a.keep) job->rows.push_back(std::move(rows));
  for (const uint32_t run : a.complete) {
    if (const Status s = close_run(job, run); !s.ok()) {
      return ports_.control.fail_or_wait(job, s.message());
    }
  }
  for (auto& [name, message] : a.send) send(job, name, std::move(message));
  if (a.wrong) ports_.records.at(job->id).wrong_rows = true;
  if (a.wrong && a.wrong->store) distrust(job->id, *a.wrong);
  if (a.failed) ports_.control.fail(job, *a.failed);
  if (a.wrong && a.wrong->store) drained(*a.wrong->store);  // in other jobs, too
  if (a.failed) return;
  if (a.manifest_made) open_sink(job);
  if (a.end_session) ports_.stores.refuse(store, *a.end_session);
  if (job->over) return;
  choose(job);
  if (job->over) return;
  keep_rows(job);
  ports_.control.work_on_runs(job);
}

// Drained even where the audit log cannot say so: nothing is to be trained on its features.
void JobIngest::distrust(uint64_t job, const RowIngest::WrongRows& wrong) {
  if (ports_.audit) {
    const Status s = ports_.audit->add(
        {.who = "job " + std::to_string(job),
         .address = ports_.stores.who(*wrong.store).peer,
         .what = "store",
         .request = "POST /stores/" + *wrong.store + "/drain",
         .asked = json_text(Json({{"photo", to_hex(wrong.photo)}, {"why", wrong.why}}))});
    if (!s.ok())
      log::error("the audit log does not say that {} is drained: {}", *wrong.store, s.message());
  }
  ports_.stores.distrust(*wrong.store, wrong.why);
}

// A photo in the trash is not shown, whatever is wrong with it. A list that is damaged is lost.
Status JobIngest::keep_quarantine(const ActivePtr& job) {
  JobFiles files = ports_.records.files(job->id);
  const Result<std::vector<UnreadablePhoto>> loaded = files.load_quarantine();
  if (!loaded.ok() && loaded.status().code() != Code::kCorrupt) return loaded.status();
  std::vector<UnreadablePhoto> all = loaded.ok() ? *loaded : std::vector<UnreadablePhoto>();
  std::set<std::string> known;
  for (const UnreadablePhoto& p : all) known.insert(key_of(p));
  for (UnreadablePhoto& p : job->ingest->unreadable_photos()) {
    if (!known.contains(key_of(p))) all.push_back(std::move(p));
  }
  std::erase_if(all,
                [&](const UnreadablePhoto& p) { return p.photo && ports_.trash.hides(*p.photo); });
  return all.empty() && known.empty() ? Status() : files.save_quarantine(all);
}

// What a run was closed without stays out, whoever comes back later: no store is asked for it
// again.
Status JobIngest::close_run(const ActivePtr& job, uint32_t run) {
  if (job->records.empty() && !job->local) {
    if (Status s = keep_quarantine(job); !s.ok()) return s;
  }
  const std::vector<uint64_t> absent = job->ingest->absent(run);
  JobFiles files = ports_.records.files(job->id, job->records);
  if (const Status s = files.close_run(run, absent); !s.ok()) return s;
  job->report.complete(now(), run);
  job->complete.push_back(run);
  return {};
}

void JobIngest::keep_rows(const ActivePtr& job) {
  if (job->phase != JobPhase::kRunning || job->keeping) return;
  if (job->rows.empty() && job->inventories.empty()) return;
  ports_.control.start(job, job->keep_lane(),
                       [this, job, inventories = std::exchange(job->inventories, {}),
                        rows = take_some(job->rows)]() -> Continuation {
                         return [this, job, kept = keep(job->work->sink(), inventories, rows)] {
                           job->report.kept(kept.rows);
                           for (const auto& [ticket, bad] : kept.tickets) {
                             if (!job->over) apply(job, "", job->ingest->durable(ticket, bad));
                           }
                         };
                       });
}

// While very many stores say what they hold, not each of them changes anything.
bool JobIngest::may_choose(const ActivePtr& job) const {
  const size_t listing = job->ingest->listing(), number = job->spec.stores.number;
  const bool enough = number > 0 && job->asked.size() >= listing + number;
  const bool at_once = listing == 0 || enough || ports_.records.job(job->id).start_now;
  if (!at_once && now() < job->choose_at) return false;
  job->choose_at = now() + kLook;
  return true;
}

void JobIngest::choose(const ActivePtr& job) {
  if (job->over || job->phase != JobPhase::kWaiting) return;
  if (!may_choose(job)) return;
  const auto timeout =
      std::chrono::duration_cast<Time>(std::chrono::duration<double>(job->spec.store_timeout));
  StoreChoice choice =
      choose_stores(job->spec.stores, standing(ports_.stores, job->spec, job->ingest->ready()),
                    timeout, ports_.records.job(job->id).start_now);
  if (const std::string why = objection(job->spec, choice, ports_.stores); !why.empty()) {
    return ports_.control.fail(job, why);
  }
  if (choice.waits()) {
    const bool without = !choice.take.empty() && !job->spec.deterministic;
    if (!job->wait.wait(now(), std::move(choice))) return;
    const std::string hint =
        without ? fmt::format("; ndtrain job start-now {} goes on without", job->id) : "";
    return ports_.records.note(job->id, job->wait.text() + hint);
  }
  job->wait.end();
  if (!choice.left_out.empty()) {
    ports_.records.note(job->id, "begins without " + text_of(choice.left_out));
  }
  RowIngest::Actions actions;
  try {
    actions = job->ingest->count_in(choice.take);
  } catch (const Error& e) {  // no photo is as the job wants it
    return ports_.control.fail(job, e.what());
  }
  apply(job, "", std::move(actions));
}

// A store that is asked already was not away.
void JobIngest::arrive(const ActivePtr& job, const std::string& name) {
  const StoreRecord& store = ports_.stores.record(name);
  if (job->over || job->asked.contains(name) || !job->has_part(store)) return;
  if (job->spec.views > 0 && !store.makes_views) {
    return ports_.control.fail(job, makes_no_views(store));
  }
  if (job->spec.group_duplicates && !job->ingest->has_manifest() && !store.tells_hashes) {
    return ports_.control.fail(job, tells_no_hashes(store));
  }
  const auto has_it = [&](const ActivePtr& other) { return other->asked.contains(name); };
  if (!store.takes_jobs_at_once && std::ranges::any_of(ports_.control.in_progress(), has_it)) {
    return ports_.records.note(
        job->id, "waits for store " + name + ", whose program makes rows for one job at a time");
  }
  apply(job, name, job->ingest->arrive(now(), name));
}

void JobIngest::arrive(const std::string& name) {
  for (const ActivePtr& job : ports_.control.in_progress()) arrive(job, name);
}

void JobIngest::over(const ActivePtr& job) {
  for (const auto& [name, serial] : job->asked) {
    if (!ports_.stores.record(name).takes_jobs_at_once) arrive(name);
  }
}

void JobIngest::left(const std::string& name, const std::string& reason) {
  gained_.erase(name);
  for (const ActivePtr& job : ports_.control.in_progress()) {
    if (job->over || !job->ingest) continue;
    job->asked.erase(name);
    ports_.records.note(job->id, "store " + name + " has left: " + reason);
    apply(job, name, job->ingest->leave(now(), name));
  }
}

void JobIngest::drained(const std::string& name) {
  const StoreRecord& store = ports_.stores.record(name);
  if (!store.here) return;
  if (!store.drained) return arrive(name);
  for (const ActivePtr& job : ports_.control.in_progress()) {
    if (job->over || !job->ingest || job->local) continue;
    job->asked.erase(name);
    apply(job, name, job->ingest->leave(now(), name));
  }
}

// What it says first in a session it knew before it was asked for anything.
void JobIngest::gained(const std::string& name, uint64_t times) {
  const auto [at, first] = gained_.try_emplace(name, times);
  if (first || std::exchange(at->second, times) >= times) return;
  for (const ActivePtr& job : ports_.control.in_progress()) {
    if (job->over || !job->ingest || job->local || job->asked.erase(name) == 0) continue;
    ports_.records.note(job->id, "store " + name + " has photos that another store had");
    apply(job, name, job->ingest->leave(now(), name));
    arrive(job, name);
  }
}

void JobIngest::message(const std::string& name, wire::FromStore message) {
  const std::vector<ActivePtr> all = ports_.control.in_progress();
  const auto at = std::ranges::find(all, job_of(message), &ActiveJob::id);
  if (at == all.end() || !(*at)->ingest) return;
  const ActivePtr& job = *at;
  // What was under way when it was asked again is about what it was asked before.
  const auto asked = job->asked.find(name);
  const uint64_t serial = asked == job->asked.end() ? 0 : asked->second;
  if (message.answers() > 0 && message.answers() != serial) return;
  if (message.has_rows()) {
    job->report.rows(now(), name, message.rows().run(), message.rows().rows().size());
  }
  if (message.has_inventory() && message.inventory().last()) {
    job->report.surveyed(name, message.inventory().survey_seconds());
  }
  if (message.has_run_done()) job->report.run_done(name, message.run_done());
  apply(job, name, job->ingest->message(now(), name, std::move(message)));
}

void JobIngest::tick() {
  for (const ActivePtr& job : ports_.control.in_progress()) {
    if (!job->over && job->ingest) apply(job, "", job->ingest->tick(now()));
  }
}

JobIngest::Time JobIngest::next() const {
  Time next = Time::max();
  for (const ActivePtr& job : ports_.control.in_progress()) {
    if (!job->ingest) continue;
    if (job->wait.waits()) next = std::min(next, now() + kLook);
    next = std::min(next, job->ingest->next());
  }
  return next;
}

}  // namespace ndtrain::tuner
