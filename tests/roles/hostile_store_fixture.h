// A store that means ill: one end of sessions with a Tuner that says what it likes.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/core/hash.h"
#include "ndp/engine/numerics.h"
#include "ndp/labels/label_types.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/protocol.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::testing {

// One end of sessions with a Tuner, one after the other, that says what it likes.
class Hostile {
 public:
  explicit Hostile(std::string address) : address_(std::move(address)) {}

  // Begins a session, of which the first answer comes back.
  wire::ToStore greet(const wire::Hello& hello) {
    term_ = 0;
    link_ = LinkClient::dial(address_, {}, ++id_, events_);
    wire::FromStore m;
    *m.mutable_hello() = hello;
    link_->send(m);
    const wire::ToStore answer = await([](const wire::ToStore&) { return true; });
    term_ = answer.term();
    return answer;
  }
  void send(wire::FromStore m) {
    m.set_term(term_);
    link_->send(std::move(m));
  }
  void send_of_term(wire::FromStore m, uint64_t term) {
    m.set_term(term);
    link_->send(std::move(m));
  }
  // The next message that is as wanted; throws when none comes.
  wire::ToStore await(const std::function<bool(const wire::ToStore&)>& wanted) {
    for (int heartbeats = 0; heartbeats < 60;) {
      const auto event = events_.take(std::chrono::seconds(1));
      if (!event) {
        wire::FromStore ping;
        ping.mutable_ping();
        if (term_ > 0) send(ping);
        ++heartbeats;
        continue;
      }
      if (event->link != id_) continue;
      if (const auto* closed = std::get_if<LinkClosed>(&event->what)) throw Error(closed->reason);
      const auto* m = std::get_if<wire::ToStore>(&event->what);
      if (m && wanted(*m)) return *m;
    }
    throw Error("no answer");
  }
  std::string refusal_of(const wire::FromStore& m) {
    send(m);
    return await([](const auto& a) { return a.has_refusal(); }).refusal().text();
  }
  // Why the link ends after this.
  std::string end_of(const wire::FromStore& m) {
    send(m);
    try {
      (void)await([](const auto&) { return false; });
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  wire::UploadsKept uploads(const std::vector<wire::Upload>& lines) {
    wire::FromStore m;
    std::string all;
    for (const wire::Upload& line : lines) {
      m.mutable_uploads()->add_lines(line.SerializeAsString());
      all += m.uploads().lines(m.uploads().lines_size() - 1);
    }
    m.mutable_uploads()->set_checksum(xxh3(all.data(), all.size()));
    send(m);
    return await([](const auto& a) { return a.has_uploads_kept(); }).uploads_kept();
  }

 private:
  const std::string address_;
  LinkEvents<wire::ToStore> events_;
  std::unique_ptr<LinkClient> link_;
  LinkId id_ = 0;
  uint64_t term_ = 0;
};

class HostileStoreTest : public RolesTest {
 protected:
  // What it did, and what it was told.
  using Answers = std::map<std::string, std::string>;

  struct Beside {
    nlohmann::json job;  // its outcome
    Answers told;
  };
  // The job of the others, while a store means ill on a thread of its own.
  Beside outcome_beside(TunerDaemon& daemon, const JobSpec& spec,
                        const std::function<Answers()>& mean_ill) {
    Answers told;
    std::thread evil([&] {
      try {
        told = mean_ill();
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    });
    nlohmann::json job = outcome(daemon, spec);
    evil.join();
    return {std::move(job), std::move(told)};
  }

  JobSpec fine_tuning(uint32_t stores) const {
    JobSpec s{.stores = stores, .deterministic = true};
    s.trainer.epochs = 2;
    s.trainer.batch = 8;
    s.freeze = "layer1";
    s.feature_dtype = DType::kF32;
    return s;
  }
  wire::Hello hello() {
    wire::Hello h;
    for (const uint32_t p : kProtocols) h.add_protocols(p);
    h.set_store("evil");
    h.set_incarnation(1);
    h.set_version("test");
    h.set_numerics(feature_numerics(devices_.get(false)));
    return h;
  }
  std::string file(int i) const {
    return at("photos/c" + std::to_string(i % kClasses) + "/" + std::to_string(i) + ".jpg");
  }
  Digest photo(int i) const { return sha256(real_fs().read(file(i)).or_throw()); }

  // Every other photo is here as well, it says.
  wire::FromStore inventory(uint64_t job) const {
    std::map<Digest, uint32_t> photos;
    for (int i = 0; i < kPhotos; i += 2) photos[photo(i)] = static_cast<uint32_t>(i % kClasses);
    wire::FromStore m;
    wire::Inventory& inventory = *m.mutable_inventory();
    inventory.set_job(job);
    for (int c = 0; c < kClasses; ++c) inventory.add_names("c" + std::to_string(c));
    for (const auto& [digest, label] : photos) {
      inventory.mutable_digests()->append(bytes_of(digest));
      inventory.mutable_sources()->push_back(static_cast<char>(LabelSource::kFolder));
      inventory.add_labels(label + 1);
    }
    inventory.set_last(true);
    return m;
  }
};

}  // namespace ndtrain::testing
