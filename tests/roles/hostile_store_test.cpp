// A store that means ill, among two that do not: what it sends is refused with a reason, by its
// name, and the others' job has the bytes that it has without it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/core/log.h"
#include "ndp/jobs/features.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/numbers.h"
#include "ndp/wire/protocol.h"
#include "ndp/wire/read_ahead.h"
#include "tests/roles/hostile_store_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::Hostile;
using testing::RunningStore;

class HostileStore : public testing::HostileStoreTest {
 protected:
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
    wire::Hello path = hello(), ahead = hello();
    path.set_store("../../evil");
    told["a name with slashes"] = evil.greet(path).refusal().text();
    ahead.set_tuner(evil.greet(hello()).welcome().tuner());
    ahead.set_newest_term(99);
    told["a later term"] = evil.greet(ahead).refusal().text();
    wire::FromStore again;
    (void)evil.greet(hello());
    *again.mutable_hello() = hello();
    told["a second greeting"] = evil.refusal_of(again);
    wire::FromStore long_one;
    (void)evil.greet(hello());
    long_one.mutable_rows()->set_rows(std::string(5 << 20, 'x'));
    told["a message of 5 MiB"] = evil.end_of(long_one);
  }
  // What it asks for, and what it says that it labels by.
  void misask(Hostile& evil, Answers& told) {
    wire::FromStore m;
    (void)evil.greet(hello());
    m.mutable_model_wanted()->set_sha256(bytes_of(sha256("no model")));
    told["a model that there is not"] = evil.refusal_of(m);
    (void)evil.greet(hello());
    m.Clear();
    for (int i = 0; i <= wire::kMostTasks; ++i) {
      m.mutable_in_force()->set_version(1);
      m.mutable_in_force()->set_task("task " + std::to_string(i));
      if (i < wire::kMostTasks) evil.send(m);
    }
    told["versions of 65 tasks"] = evil.refusal_of(m);
    // Nobody takes the answers meanwhile: see ReadAhead.
    (void)evil.greet(hello());
    const wire::Job job = evil.await([](const auto& a) { return a.has_job(); }).job();
    m.Clear();
    m.mutable_model_wanted()->set_sha256(job.extractor());
    const std::string extractor =
        at("tuner/models/" + to_hex(digest_of(job.extractor()).value()) + ".onnx");
    const auto bytes = static_cast<size_t>(real_fs().info(extractor).or_throw().size);
    const size_t asks = (kMostWaiting + 2 * ReadAhead::kMost) / bytes;
    for (size_t i = 0; i < asks; ++i) evil.send(m);
    await([&] {
      const std::string said = real_fs().read(at("log.txt")).or_throw();
      return said.find("store evil has left: it asks for more than it takes") != said.npos;
    });
    told["more than it takes"] = evil.refusal_of(m);
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
    m = inventory(job().job());
    std::string& digests = *m.mutable_inventory()->mutable_digests();
    std::rotate(digests.begin(), digests.begin() + sizeof(Digest), digests.end());
    told["photos out of order"] = evil.refusal_of(m);
    m = inventory(job().job());
    m.mutable_inventory()->mutable_digests()->replace(
        sizeof(Digest), sizeof(Digest), m.inventory().digests().substr(0, sizeof(Digest)));
    told["a photo twice"] = evil.refusal_of(m);
    m = inventory(job().job());
    m.mutable_inventory()->add_labels(1);
    told["more labels than photos"] = evil.refusal_of(m);
    const wire::Job asked = job();
    m.Clear();
    m.mutable_rows()->set_job(asked.job());
    m.set_answers(asked.serial());
    told["rows before its photos"] = evil.refusal_of(m);
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
    misask(evil, told);
    misreport(evil, told);
    (void)evil.greet(hello());
    const wire::Job job = evil.await([](const auto& m) { return m.has_job(); }).job();
    evil.send(inventory(job.job()));
    std::vector<wire::Wanted> wanted;
    for (int run = 0; run <= 1; ++run) {
      wanted.push_back(evil.await([](const auto& m) { return m.has_wanted(); }).wanted());
    }
    misextract(evil, job, wanted[0]);  // before the others can have made these, too
    misspeak(evil, told);
    misextract(evil, job, wanted[1]);
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
  auto [disturbed, told] = outcome_beside(daemon, spec, [&] { return mean_ill(); });
  log::to_file("");

  const std::map<std::string, std::string> expected = {
      {"2^62 photos", "Hello.photos is 4611686018427387904"},
      {"a version that clears screens", "Hello.version is '1\\x1b[2J\\nerror"},
      {"a name with slashes", "'../../evil' is no name for a store"},
      {"a later term", "the store has seen 99"},
      {"a second greeting", "or a second Hello"},
      {"a message of 5 MiB", "bytes; the limit is 4194304"},
      {"a model that there is not", "is not here from byte 0 on"},
      {"versions of 65 tasks", "it has versions of more than 64 tasks in force"},
      {"more than it takes", "it asks for more than it takes: "},
      {"photos out of order", "an inventory out of order"},
      {"a photo twice", "an inventory out of order"},
      {"more labels than photos", "an inventory whose parts do not fit"},
      {"rows before its photos", "rows before any were asked for"},
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
