#include "ndp/pipestore/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/core/hash.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::ndp {

PipeStoreService::PipeStoreService(const Setting& setting, wire::Hello hello, uint64_t seed)
    : setting_(setting),
      tuner_({.clock = setting.clock,
              .state = setting.state,
              .dial = setting.dial,
              .photos = [this] { return setting_.producer.photos(); },
              .behind = [this] { uploads_.say_all_again(); },
              .last_retry = setting.last_retry},
             std::move(hello), seed, *this),
      blobs_(setting.fs, setting.state.file("models")),
      models_({.fs = setting.fs,
               .blobs = blobs_,
               .lanes = setting.lanes,
               .lane = kStoreLane,
               .apply = setting.apply,
               .send = [this](wire::FromStore m) { tuner_.send(std::move(m)); },
               .here = [this] { go_on(); },
               .failed = [this](const Status& why) { model_failed(why); }}),
      jobs_({.clock = setting.clock,
             .lanes = setting.lanes,
             .producer = setting.producer,
             .blobs = blobs_,
             .models = models_,
             .tuner = tuner_,
             .go_on = [this] { go_on(); }}),
      deployment_({.fs = setting.fs,
                   .clock = setting.clock,
                   .state = setting.state,
                   .lanes = setting.lanes,
                   .blobs = blobs_,
                   .models = models_,
                   .tuner = tuner_,
                   .jobs = jobs_,
                   .go_on = [this] { go_on(); },
                   .changed = setting.in_force_changed,
                   .log = setting.uploads}),
      uploads_({.clock = setting.clock,
                .tuner = tuner_,
                .log = setting.uploads,
                .space = setting.space}),
      deletions_({.fs = setting.fs,
                  .state = setting.state,
                  .lanes = setting.lanes,
                  .tuner = tuner_,
                  .forget = setting.forget}),
      trash_({.lanes = setting.lanes,
              .tuner = tuner_,
              .trash = setting.trash,
              .changed = setting.trash_changed}) {}

PipeStoreService::Time PipeStoreService::next() const {
  return tuner_.open() ? std::min({tuner_.next(), jobs_.next(), deployment_.next()})
                       : tuner_.next();
}

void PipeStoreService::model_failed(const Status& why) {
  deployment_.model_failed();
  jobs_.model_failed(why);
}

void PipeStoreService::tick() {
  tuner_.tick();
  if (!tuner_.open()) return;
  uploads_.tick();
  jobs_.tick();
  deployment_.tick();
  exchange_.tick();
}

void PipeStoreService::message(const wire::ToStore& m) {
  if (m.has_job()) {
    jobs_.begin(m.job());
  } else if (m.has_model_part()) {
    if (!models_.part(m.model_part())) tuner_.drop("a model part with a wrong checksum");
  } else if (m.has_way()) {
    models_.way(m.way());
  } else if (m.has_publish()) {
    deployment_.publish(m.publish());
  } else if (m.has_wanted()) {
    jobs_.wanted(m.wanted());
  } else if (m.has_ack()) {
    jobs_.acknowledged(m.ack());
  } else if (m.has_tokens()) {
    take_tokens(m.tokens());
  } else if (m.has_deletions()) {
    deletions_.take(m.deletions());
  } else if (m.has_trash()) {
    trash_.take(m.trash());
  } else if (m.has_uploads_kept()) {
    uploads_.kept(m.uploads_kept());
  } else if (m.has_job_end()) {
    jobs_.end(m.job_end());
  } else if (m.has_photo_wanted()) {
    exchange_.give(m.photo_wanted());
  } else if (m.has_photo_part()) {
    exchange_.part(m.photo_part());
  } else if (m.has_probe()) {
    answer(m.probe());
  }
}

void PipeStoreService::session_over() {
  jobs_.session_over();
  models_.session_over();
  uploads_.session_over();
  trash_.session_over();
  exchange_.session_over();
}

// What it asks for is in this process's memory until the Tuner takes it.
void PipeStoreService::answer(const wire::Probe& probe) {
  if (const size_t waiting = tuner_.waiting(); waiting > kMostWaiting) {
    return tuner_.refuse(fmt::format(
        "it asks for more than it takes: {} bytes wait for it, {} may where it probes the link",
        waiting, kMostWaiting));
  }
  wire::FromStore m;
  m.mutable_probe()->set_number(probe.number());
  m.mutable_probe()->set_payload(std::string(probe.answer_bytes(), '\0'));
  tuner_.send(std::move(m));
}

void PipeStoreService::take_tokens(const wire::Tokens& tokens) {
  const std::string& json = tokens.json();
  if (xxh3(json.data(), json.size()) != tokens.checksum()) {
    tuner_.drop("tokens with a wrong checksum");
  } else if (setting_.tokens) {
    setting_.tokens(json, tokens.ticket_key());
  }
}

void PipeStoreService::go_on() {
  jobs_.advance();
  deployment_.advance();
}

}  // namespace ndtrain::ndp
