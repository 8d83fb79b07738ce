// A Tuner that means ill, over the wire, to a PipeStore with files and threads: each thing that it
// says is refused and named in the store's log, the store goes on, and so do a Tuner and stores
// beside it. Afterwards the store works for a Tuner that does not, with the bytes that it should.
#include <gmock/gmock.h>

#include <cmath>
#include <thread>

#include "framework/core/log.h"
#include "models/builder.h"
#include "ndp/deltas/delta.h"
#include "ndp/deltas/delta_format.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/numbers.h"
#include "ndp/wire/protocol.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::RolesTest;
using testing::RunningStore;

// The other end of a store's sessions, one after the other, that says what it likes.
class EvilTuner {
 public:
  explicit EvilTuner(const std::string& address)
      : server_(LinkServer::listen(address, {}, events_).or_throw()) {}

  // The next store that comes: it is greeted as the Tuner of the next term, unless `welcome` says
  // something else.
  void greet(const std::function<void(wire::ToStore&)>& welcome = {}) {
    link_ = 0;
    while (link_ == 0) {
      const auto event = next();
      if (std::holds_alternative<LinkOpened>(event.what)) link_ = event.link;
    }
    (void)await([](const auto& m) { return m.has_hello(); });
    wire::ToStore m;
    m.set_term(++term_);
    m.mutable_welcome()->set_protocol(kProtocols[0]);
    m.mutable_welcome()->set_tuner("evil evil evil !");
    m.mutable_welcome()->set_heartbeat_ms(60'000);
    m.mutable_welcome()->set_window(1 << 20);
    if (welcome) welcome(m);
    server_->send(link_, m);
  }
  void send(wire::ToStore m) {
    m.set_term(term_);
    server_->send(link_, std::move(m));
  }
  wire::FromStore await(const std::function<bool(const wire::FromStore&)>& wanted) {
    for (;;) {
      auto event = next();
      if (event.link != link_) continue;
      if (const auto* closed = std::get_if<LinkClosed>(&event.what)) throw Error(closed->reason);
      const auto* m = std::get_if<wire::FromStore>(&event.what);
      if (m && wanted(*m)) return *m;
    }
  }
  std::string refusal() {
    return await([](const auto& m) { return m.has_refused(); }).refused().reason();
  }
  void await_end() {
    for (;;) {
      const auto event = next();
      if (event.link == link_ && std::holds_alternative<LinkClosed>(event.what)) return;
    }
  }
  // What the store wants of this file, which then gets it.
  wire::ModelWanted give(const std::string& bytes) {
    const std::string digest = bytes_of(sha256(bytes));
    const wire::FromStore m = await(
        [&](const auto& f) { return f.has_model_wanted() && f.model_wanted().sha256() == digest; });
    wire::ToStore part;
    part.mutable_model_part()->set_sha256(digest);
    part.mutable_model_part()->set_total(bytes.size());
    part.mutable_model_part()->set_bytes(bytes);
    part.mutable_model_part()->set_checksum(xxh3(bytes.data(), bytes.size()));
    send(part);
    return m.model_wanted();
  }

 private:
  LinkEvent<wire::FromStore> next() {
    auto event = events_.take(std::chrono::seconds(60));
    if (!event) throw Error("the store says nothing");
    return std::move(*event);
  }

  LinkEvents<wire::FromStore> events_;
  std::unique_ptr<LinkServer> server_;
  LinkId link_ = 0;
  uint64_t term_ = 100;
};

wire::ToStore asks_for(uint64_t id, wire::Job::Rows rows, const std::string& extractor = "") {
  wire::ToStore m;
  m.mutable_job()->set_job(id);
  m.mutable_job()->set_rows(rows);
  if (!extractor.empty()) m.mutable_job()->set_extractor(bytes_of(sha256(extractor)));
  return m;
}

wire::ToStore wants_photos(uint64_t job, uint64_t from, uint64_t to, uint32_t run = 1) {
  std::vector<uint64_t> all;
  for (uint64_t i = from; i < to; ++i) all.push_back(i);
  wire::ToStore m;
  m.mutable_wanted()->set_job(job);
  m.mutable_wanted()->set_run(run);
  m.mutable_wanted()->set_numbers(pack_numbers(all));
  m.mutable_wanted()->set_places(pack_numbers(all));
  return m;
}

bool ends_inventory(const wire::FromStore& m) { return m.has_inventory() && m.inventory().last(); }

class HostileTuner : public RolesTest {
 protected:
  JobSpec fine_tuning(uint32_t stores) const {
    JobSpec s{.stores = stores, .deterministic = true};
    s.trainer.epochs = 1;
    s.trainer.batch = 8;
    s.freeze = "layer1";
    s.feature_dtype = DType::kF32;
    return s;
  }
  std::string evil_address() const { return "unix:" + at("evil"); }
  PipeStoreConfig victim(const std::string& tuner) const {
    PipeStoreConfig c = store("victim", 0, 1);
    c.tuner = tuner;
    return c;
  }
  std::string model_bytes(const Model& model) const {
    ModelFile file{.path = at("made.onnx"), .model = model};
    file.preprocess.img_size = file.preprocess.resize = kSide;
    save_model(real_fs(), file.path, file);
    return real_fs().read(file.path).or_throw();
  }
  std::string extractor(uint64_t seed) const {
    return model_bytes(build_model("tinynet", {.classes = 5, .img_size = kSide, .seed = seed}));
  }

  // What the store logs while a Tuner does this to it.
  std::string said_of(const std::function<void(EvilTuner&)>& act) {
    const std::string path = at("log.txt");
    const size_t before = real_fs().exists(path) ? real_fs().read(path).or_throw().size() : 0;
    {
      const RunningStore store(victim(evil_address()), devices_);
      act(*evil_);
    }
    return real_fs().read(path).or_throw().substr(before);
  }
  void expect_end(const std::string& why, const std::function<void(EvilTuner&)>& act) {
    const std::string said = said_of([&](EvilTuner& evil) {
      act(evil);
      evil.await_end();
    });
    EXPECT_THAT(said, HasSubstr(why));
  }
  void expect_refused(const std::string& why, const std::function<void(EvilTuner&)>& act) {
    std::string reason;
    const std::string said = said_of([&](EvilTuner& evil) {
      act(evil);
      reason = evil.refusal();
    });
    EXPECT_THAT(reason, HasSubstr(why));
    EXPECT_THAT(said, HasSubstr("cannot be done here: "));
    EXPECT_THAT(said, HasSubstr(why));
  }
  void greet_wrongly();
  void speak_wrongly();
  void want_wrongly();
  void send_wrong_models();
  void send_wrong_deltas();
  void flood();
  void delete_what_it_does_not_hold();
  void publish_no_model();

  std::unique_ptr<EvilTuner> evil_;
};

void HostileTuner::greet_wrongly() {
  expect_end("Welcome.window is 1073741824", [](EvilTuner& evil) {
    evil.greet([](wire::ToStore& m) { m.mutable_welcome()->set_window(1 << 30); });
  });
  expect_end("the Tuner greets a second time", [](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m;
    m.mutable_welcome()->set_protocol(kProtocols[0]);
    m.mutable_welcome()->set_heartbeat_ms(1000);
    m.mutable_welcome()->set_window(1000);
    evil.send(m);
  });
  expect_end("an old Tuner answers: its term is 7",
             [](EvilTuner& evil) { evil.greet([](wire::ToStore& m) { m.set_term(7); }); });
  // What it would follow it could not leave any more.
  expect_end("ToStore.term is 9223372036854775808", [](EvilTuner& evil) {
    evil.greet([](wire::ToStore& m) { m.set_term(uint64_t{1} << 63); });
  });
  expect_end("refused: the Tuner's term is 9223372036854775807, which no Tuner",
             [](auto& evil) { evil.greet([](wire::ToStore& m) { m.set_term(INT64_MAX); }); });
}

void HostileTuner::speak_wrongly() {
  expect_end("bytes; the limit is 4194304", [](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m;
    m.mutable_tokens()->set_json(std::string(5 << 20, ' '));
    evil.send(m);
  });
  expect_end("a message of an unknown kind", [](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m;
    m.GetReflection()->MutableUnknownFields(&m)->AddVarint(999, 1);
    evil.send(m);
  });
  expect_end("Publish.task is 'rose\\nerror: the disk is on fire'", [](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m;
    m.mutable_publish()->set_task("rose\nerror: the disk is on fire");
    evil.send(m);
  });
  expect_end("version 9 has no extractor", [](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m;
    m.mutable_publish()->set_version(9);
    evil.send(m);
  });
  expect_end("of which 0 is the last that was sent to it", [](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m;
    m.mutable_uploads_kept()->set_sequence(1000);
    evil.send(m);
  });
  const std::string tokens = said_of([](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m;
    m.mutable_tokens()->set_json("[[[[");
    m.mutable_tokens()->set_checksum(xxh3("[[[[", 4));
    evil.send(m);
    m.mutable_probe()->set_number(1);
    evil.send(m);
    (void)evil.await([](const auto& f) { return f.has_probe(); });
  });
  EXPECT_THAT(tokens, HasSubstr("the Tuner's tokens are not in force here"));
}

void HostileTuner::want_wrongly() {
  expect_end("Job.Views.count is 2147483648", [](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m = asks_for(1, wire::Job::FEATURES, "x");
    m.mutable_job()->mutable_views()->set_changes("flip");
    m.mutable_job()->mutable_views()->set_count(uint32_t{1} << 31);
    evil.send(m);
  });
  expect_end("photos of job 1 are wanted before it was told of any", [](EvilTuner& evil) {
    evil.greet();
    evil.send(asks_for(1, wire::Job::FEATURES, "a model that does not come"));
    evil.send(wants_photos(1, 0, 10));
  });
  expect_end("job 1: ", [](EvilTuner& evil) {  // of which there are 60
    evil.greet();
    evil.send(asks_for(1, wire::Job::FILES));
    (void)evil.await(ends_inventory);
    evil.send(wants_photos(1, 0, kPhotos + 1));
  });
  expect_end("photos are wanted at once, of 60", [](EvilTuner& evil) {
    evil.greet([](wire::ToStore& m) { m.mutable_welcome()->set_window(1); });
    evil.send(asks_for(1, wire::Job::FILES));
    (void)evil.await(ends_inventory);
    for (uint32_t run = 1; run <= 3; ++run) evil.send(wants_photos(1, 0, kPhotos, run));
  });
  expect_refused("'2147483648' is not a number", [](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m = asks_for(1, wire::Job::CROPS);
    (*m.mutable_job()->mutable_preprocessing())["preprocess.img_size"] = "2147483648";
    evil.send(m);
  });
}

void HostileTuner::send_wrong_models() {
  const std::string no_graph(1000, '\x7f');
  expect_refused("", [&](EvilTuner& evil) {
    evil.greet();
    evil.send(asks_for(1, wire::Job::FEATURES, no_graph));
    (void)evil.give(no_graph);
  });
  const std::string sound = extractor(1);
  expect_refused("a row of it would have no bytes", [&](EvilTuner& evil) {
    evil.greet();
    evil.send(asks_for(1, wire::Job::LABELS, sound));  // the best 0 classes
    (void)evil.give(sound);
  });

  models::Builder b(0, kSide);
  const auto huge = b.node("Tile", {b.input(), b.ints({1, 1, 1 << 14, 1 << 14})});
  const std::string terabytes =
      model_bytes(b.finish(b.linear("fc", b.flatten(b.global_average_pool(huge)), 5)));
  expect_refused("this process may use", [&](EvilTuner& evil) {
    evil.greet();
    evil.send(asks_for(1, wire::Job::FEATURES, terabytes));
    (void)evil.give(terabytes);
    (void)evil.await(ends_inventory);
    evil.send(wants_photos(1, 0, 1));
  });

  Model spoiled = build_model("tinynet", {.classes = 5, .img_size = kSide});
  for (auto& [name, t] : spoiled.initialisers) {
    if (t.type().dtype != DType::kF32) continue;
    Tensor nan(t.type());
    std::ranges::fill(nan.mutable_as<float>(), std::nanf(""));
    t = nan;
  }
  const std::string nan_weights = model_bytes(spoiled);
  wire::Rows rows;
  (void)said_of([&](EvilTuner& evil) {
    evil.greet();
    evil.send(asks_for(1, wire::Job::FEATURES, nan_weights));
    (void)evil.give(nan_weights);
    (void)evil.await(ends_inventory);
    evil.send(wants_photos(1, 0, 1));
    rows = evil.await([](const auto& f) { return f.has_rows(); }).rows();
  });
  EXPECT_EQ(rows.rows(), "");
  ASSERT_EQ(rows.unreadable_size(), 1);
  EXPECT_THAT(rows.unreadable(0).reason(), HasSubstr("NaN or Inf"));
}

// Ways to a model from one that the store holds: of another base, and of one that claims 2^62
// bytes; then it believes in no more of them.
void HostileTuner::send_wrong_deltas() {
  const std::string base = extractor(1), other = extractor(2), goal = extractor(3);
  std::string bomb = make_delta(base, goal).or_throw().bytes.substr(0, delta_format::kHeaderBytes);
  bomb += "\xff\xff\xff\xff\xff\xff\xff\xff\x3f";
  const auto way_by = [&](const std::string& delta) {
    wire::ToStore m;
    m.mutable_way()->set_sha256(bytes_of(sha256(goal)));
    wire::Way::Step& step = *m.mutable_way()->add_steps();
    step.set_delta(bytes_of(sha256(delta)));
    step.set_base(bytes_of(sha256(base)));
    step.set_result(bytes_of(sha256(goal)));
    return m;
  };
  const auto failure = [&](EvilTuner& evil) {
    return evil
        .await([&](const auto& f) {
          return f.has_model_wanted() && !f.model_wanted().failure().empty();
        })
        .model_wanted()
        .failure();
  };
  expect_refused("3 ways to model ", [&](EvilTuner& evil) {
    evil.greet();
    evil.send(asks_for(1, wire::Job::FEATURES, base));
    (void)evil.await(ends_inventory);  // it has it from before
    evil.send(asks_for(2, wire::Job::FEATURES, goal));
    evil.send(way_by(bomb));
    (void)evil.give(bomb);
    EXPECT_THAT(failure(evil), HasSubstr("a damaged delta: a part of "));
    const std::string elsewhere = make_delta(other, goal).or_throw().bytes;
    evil.send(way_by(elsewhere));
    (void)evil.give(elsewhere);
    EXPECT_THAT(failure(evil), HasSubstr("instead of from "));
    wire::ToStore nowhere = way_by(bomb);
    nowhere.mutable_way()->mutable_steps(0)->set_base(bytes_of(sha256("nobody has it")));
    evil.send(nowhere);
  });
  EXPECT_FALSE(real_fs().exists(at("state-victim/models/" + to_hex(sha256(goal)) + ".onnx")));
}

void HostileTuner::flood() {
  expect_end("lists of photos are made; 64 are the most at once", [](EvilTuner& evil) {
    evil.greet();
    for (int i = 0; i < 3000; ++i) evil.send(asks_for(1, wire::Job::FILES));
  });
  expect_end("versions of 65 tasks besides the default one", [](EvilTuner& evil) {
    evil.greet();
    for (int i = 0; i <= wire::kMostTasks; ++i) {
      wire::ToStore m;
      m.mutable_publish()->set_version(1);
      m.mutable_publish()->set_extractor(bytes_of(sha256("a model that does not come")));
      m.mutable_publish()->set_task("task " + std::to_string(i));
      evil.send(m);
    }
  });
  // Nobody takes what it answers: see ReadAhead.
  const std::string said = said_of([&](EvilTuner& evil) {
    evil.greet();
    for (uint64_t i = 1; i <= 40; ++i) {
      wire::ToStore m;
      m.mutable_probe()->set_number(i);
      m.mutable_probe()->set_answer_bytes(wire::kProbeBytes);
      evil.send(m);
    }
    const std::string path = at("log.txt");
    await([&] {
      return real_fs().read(path).or_throw().find("it asks for more than it takes") !=
             std::string::npos;
    });
    evil.await_end();
  });
  EXPECT_THAT(said, HasSubstr("the Tuner is refused: it asks for more than it takes: "));
}

void HostileTuner::delete_what_it_does_not_hold() {
  (void)said_of([](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m;
    for (int i = 0; i < 1000; ++i) {
      m.mutable_deletions()->mutable_photos()->append(
          bytes_of(sha256("another's photo " + std::to_string(i))));
    }
    m.mutable_deletions()->set_count(1000);
    evil.send(m);
    (void)evil.await([](const auto& f) { return f.has_deleted(); });
    evil.send(asks_for(1, wire::Job::FILES));
    const wire::FromStore photos = evil.await(ends_inventory);
    EXPECT_EQ(photos.inventory().digests().size(), kPhotos * sizeof(Digest));
  });
}

// It is in force, and nothing is labelled by it.
void HostileTuner::publish_no_model() {
  const std::string no_model(2000, '\x7e');
  (void)said_of([&](EvilTuner& evil) {
    evil.greet();
    wire::ToStore m;
    m.mutable_publish()->set_version(9);
    m.mutable_publish()->set_extractor(bytes_of(sha256(no_model)));
    evil.send(m);
    (void)evil.give(no_model);
    (void)evil.await([](const auto& f) { return f.has_in_force(); });
    await([&] {
      const std::string said = real_fs().read(at("log.txt")).or_throw();
      return said.find("uploads go on with version 0: the next one cannot run here") !=
             std::string::npos;
    });
  });
}

TEST_F(HostileTuner, IsRefusedByNameAndItsStoreAndTheOthersGoOn) {
  const nlohmann::json calm = run(fine_tuning(1), "calm");
  log::to_file(at("log.txt"));
  evil_ = std::make_unique<EvilTuner>(evil_address());

  nlohmann::json undisturbed;
  {
    TunerDaemon daemon(tuner("beside"), devices_, real_fs(), system_clock());
    JobSpec beside = fine_tuning(2);
    beside.model = to_hex(daemon.add_model(at("base.onnx")));
    const RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
    std::jthread attack([&] {
      try {
        greet_wrongly();
        speak_wrongly();
        want_wrongly();
        send_wrong_models();
        send_wrong_deltas();
        flood();
        delete_what_it_does_not_hold();
        publish_no_model();
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    });
    undisturbed = outcome(daemon, beside);
    attack.join();
  }
  log::to_file("");
  const std::string said = real_fs().read(at("log.txt")).or_throw();
  EXPECT_EQ(said.find("\nerror: the disk is on fire"), std::string::npos);

  TunerDaemon daemon(tuner("after"), devices_, real_fs(), system_clock());
  JobSpec after = fine_tuning(1);
  after.model = to_hex(daemon.add_model(at("base.onnx")));
  const RunningStore sound(victim(address()), devices_);
  const nlohmann::json worked = outcome(daemon, after);
  EXPECT_EQ(worked.at("train_photos"), calm.at("train_photos"));
  EXPECT_EQ(worked.at("model_id"), calm.at("model_id"));
  EXPECT_EQ(undisturbed.at("model_id"), calm.at("model_id"));
  for (int i = 0; i < kPhotos; ++i) {
    EXPECT_TRUE(real_fs().exists(
        at("photos/c" + std::to_string(i % kClasses) + "/" + std::to_string(i) + ".jpg")))
        << i;
  }
}

}  // namespace
}  // namespace ndtrain::tuner
