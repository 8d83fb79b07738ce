// A store that means ill, among two that do not: what it sends is refused with a reason, by its
// name, and the others' job has the bytes that it has without it.
#include <gmock/gmock.h>

#include <cmath>

#include "framework/core/dtype.h"
#include "framework/core/log.h"
#include "ndp/engine/numerics.h"
#include "ndp/jobs/features.h"
#include "ndp/labels/label_types.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/numbers.h"
#include "ndp/wire/protocol.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::RolesTest;
using testing::RunningStore;

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

class HostileStore : public RolesTest {
 protected:
  // What it did, and what it was told.
  using Answers = std::map<std::string, std::string>;

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
  static wire::Upload line(uint64_t sequence, const Digest& photo) {
    wire::Upload u;
    u.set_sequence(sequence);
    u.set_digest(bytes_of(photo));
    u.set_path("uploads/x.jpg");
    u.set_time(1);
    u.set_version(1);
    u.add_top()->set_name("c0");
    u.mutable_top(0)->set_score(.5F);
    return u;
  }

  // Sessions that do not outlive their first message, or the one after.
  void misgreet(Hostile& evil, Answers& told) {
    wire::Hello many = hello(), screen = hello();
    many.set_photos(uint64_t{1} << 62);
    told["2^62 photos"] = evil.greet(many).refusal().text();
    screen.set_version("1\x1b[2J\nerror: the disk is on fire");
    told["a version that clears screens"] = evil.greet(screen).refusal().text();
  }
  void misreport(Hostile& evil, Answers& told) {
    const auto job = [&] {
      (void)evil.greet(hello());
      return evil.await([](const auto& m) { return m.has_job(); }).job();
    };
    wire::FromStore m = inventory(job().job());
    m.mutable_inventory()->set_names(0, "c0\nerror: the disk is on fire");
    told["a class of two lines"] = evil.refusal_of(m);
    m = inventory(job().job());
    m.mutable_inventory()->set_names(0, std::string(1 << 20, 'x'));
    told["a class of 1 MB"] = evil.refusal_of(m);
    m = inventory(job().job());
    m.mutable_inventory()->add_paths("../../etc/passwd");
    told["a path out of its photos"] = evil.refusal_of(m);
    m = inventory(job().job());
    const std::vector<float> nan(64, std::nanf(""));
    std::string& sample = *m.mutable_inventory()->mutable_sample();
    sample.assign(reinterpret_cast<const char*>(nan.data()), nan.size() * sizeof(float));
    m.mutable_inventory()->set_sample_checksum(xxh3(sample.data(), sample.size()));
    told["a sample of NaN"] = evil.refusal_of(m);
  }
  void misspeak(Hostile& evil, Answers& told) {
    const Digest mine = photo(0), other = photo(1);  // which only a or b has
    std::vector<wire::Upload> lines(6, line(0, mine));
    lines[0].mutable_top(0)->set_score(std::nanf(""));
    lines[1].set_path(std::string(1 << 20, 'x'));
    lines[2].mutable_top(0)->set_name("");
    lines[3].set_time(int64_t{1} << 62);
    lines[4] = lines[5] = line(0, other);
    lines[4].set_removed(true);
    lines[5].set_truth("c9");
    for (size_t i = 0; i < lines.size(); ++i) lines[i].set_sequence(i + 1);
    const wire::UploadsKept kept = evil.uploads(lines);
    EXPECT_EQ(kept.sequence(), lines.size()) << "all are acknowledged";
    const char* const what[] = {"a score of NaN", "a path of 1 MB",     "a class of nothing",
                                "a time of 2^62", "another's deletion", "another's truth"};
    for (const wire::RefusedUpload& r : kept.refused()) {
      told[what[r.sequence() - 1]] = r.reason();
    }
  }
  // A row of NaN for every other photo that it is asked for, of Inf for the rest.
  void misextract(Hostile& evil, const wire::Job& job, const wire::Wanted& wanted) {
    const ModelFile extractor = load_model(
        real_fs(), at("tuner/models/" + to_hex(digest_of(job.extractor()).value()) + ".onnx"));
    size_t values = 0;
    for (const TensorType& t : row_types_of(extractor.model)) values += bytes_of_row(t) / 4;
    wire::FromStore m;
    wire::Rows& rows = *m.mutable_rows();
    rows.set_job(job.job());
    rows.set_run(wanted.run());
    rows.set_chunk(wanted.run() + 1);
    rows.set_numbers(wanted.numbers());
    const size_t n = unpack_numbers(wanted.numbers(), UINT64_MAX, 1000).or_throw().size();
    for (size_t i = 0; i < n; ++i) {
      const std::vector<float> row(values, i % 2 == 0 ? std::nanf("") : HUGE_VALF);
      rows.mutable_rows()->append(reinterpret_cast<const char*>(row.data()),
                                  row.size() * sizeof(float));
    }
    rows.set_checksum(xxh3(rows.rows().data(), rows.rows().size()));
    m.set_answers(job.serial());
    evil.send(m);
  }

  Answers mean_ill() {
    Answers told;
    Hostile evil(address());
    misgreet(evil, told);
    misreport(evil, told);
    (void)evil.greet(hello());
    const wire::Job job = evil.await([](const auto& m) { return m.has_job(); }).job();
    evil.send(inventory(job.job()));
    std::vector<wire::Wanted> wanted;
    for (int run = 0; run <= 1; ++run) {
      wanted.push_back(evil.await([](const auto& m) { return m.has_wanted(); }).wanted());
    }
    misspeak(evil, told);
    for (const wire::Wanted& w : wanted) misextract(evil, job, w);
    (void)evil.await([](const auto& m) { return m.has_job_end(); });
    return told;
  }
};

TEST_F(HostileStore, IsRefusedByNameAndTheOthersJobHasTheUndisturbedBytes) {
  const nlohmann::json calm = run(fine_tuning(2), "calm");
  log_.clear();

  const std::string lines = at("log.txt");
  log::to_file(lines);
  TunerConfig config = tuner("tuner");
  TunerDaemon daemon(config, devices_, real_fs(), system_clock());
  RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
  JobSpec spec = fine_tuning(3);
  spec.model = to_hex(daemon.add_model(at("base.onnx")));
  Answers told;
  std::thread evil([&] {
    try {
      told = mean_ill();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  });
  const nlohmann::json disturbed = outcome(daemon, spec);
  evil.join();
  log::to_file("");

  const std::map<std::string, std::string> expected = {
      {"2^62 photos", "Hello.photos is 4611686018427387904"},
      {"a version that clears screens", "Hello.version is '1\\x1b[2J\\nerror"},
      {"a class of two lines", "Inventory.names is 'c0\\nerror"},
      {"a class of 1 MB", "Inventory.names has 1048576 bytes"},
      {"a path out of its photos", "Inventory.paths is '../../etc/passwd'"},
      {"a sample of NaN", "a feature is NaN or Inf"},
      {"a score of NaN", "TopClass.score is nan"},
      {"a path of 1 MB", "Upload.path has 1048576 bytes"},
      {"a class of nothing", "TopClass.name has 0 bytes"},
      {"a time of 2^62", "Upload.time is 4611686018427387904"},
      {"another's deletion", "held by other stores"},
      {"another's truth", "held by other stores"}};
  for (const auto& [what, why] : expected) EXPECT_THAT(told[what], HasSubstr(why)) << what;
  EXPECT_THAT(log_, HasSubstr("store evil: photo ")) << "rows of NaN and of Inf";
  EXPECT_THAT(log_, HasSubstr(" is refused: a feature is NaN or Inf"));
  const std::string said = real_fs().read(lines).or_throw();
  EXPECT_THAT(said, HasSubstr("store evil at "));
  EXPECT_THAT(said, HasSubstr("lines of the uploads of store evil are refused"));
  EXPECT_EQ(said.find("\nerror: the disk is on fire"), std::string::npos);
  EXPECT_EQ(said.find('\x1b'), std::string::npos);

  EXPECT_EQ(disturbed.at("train_photos"), calm.at("train_photos"));
  EXPECT_EQ(disturbed.at("model_id"), calm.at("model_id"));
  for (const char* name : {"model.onnx", "head.onnx", "last.safetensors"}) {
    const auto bytes = [&](const std::string& state) {
      return real_fs().read(at(state + "/jobs/1/run/" + name)).or_throw();
    };
    EXPECT_EQ(sha256(bytes("tuner")), sha256(bytes("calm"))) << name;
  }
  for (int i = 0; i < kPhotos; ++i) EXPECT_TRUE(real_fs().exists(file(i))) << i;
  const std::string audit = real_fs().read(at("tuner/audit.jsonl")).or_throw();
  EXPECT_THAT(audit, HasSubstr(R"("who":"store evil")"));
  EXPECT_THAT(audit, HasSubstr(R"("failed":403)"));
}

}  // namespace
}  // namespace ndtrain::tuner
