// What schedulers of clusters are given: a job script for Slurm, which is run, and manifests for
// Kubernetes, whose schema (of 1.37) is beside this file as far as they use it.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/cli/site_fixture.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

nlohmann::json to_json(const YAML::Node& node) {
  if (node.IsMap()) {
    nlohmann::json all = nlohmann::json::object();
    for (const auto& each : node) all[each.first.as<std::string>()] = to_json(each.second);
    return all;
  }
  if (node.IsSequence()) {
    nlohmann::json all = nlohmann::json::array();
    for (const YAML::Node& each : node) all.push_back(to_json(each));
    return all;
  }
  const bool quoted = node.Tag() == "!";
  const std::string text = node.as<std::string>();
  const nlohmann::json plain = nlohmann::json::parse(text, nullptr, false);
  const bool is_string = quoted || !(plain.is_number_integer() || plain.is_boolean());
  return is_string ? nlohmann::json(text) : plain;
}

// Octal modes are numbers of YAML that JSON does not have.
bool is_of(const std::string& type, const nlohmann::json& value) {
  static const std::regex octal("0[0-7]+");
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  return value.is_number() ||
         (value.is_string() && std::regex_match(value.get<std::string>(), octal));
}

bool is_of(const nlohmann::json& types, const nlohmann::json& value) {
  if (types.is_string()) return is_of(types.get<std::string>(), value);
  return std::ranges::any_of(
      types, [&](const auto& t) { return is_of(t.template get<std::string>(), value); });
}

void expect_valid(const nlohmann::json& value, const nlohmann::json& schema,
                  const std::string& where) {
  if (schema.contains("type")) {
    EXPECT_TRUE(is_of(schema.at("type"), value)) << where << ": " << value;
  }
  if (schema.contains("enum")) {
    EXPECT_THAT(schema.at("enum"), ::testing::Contains(value)) << where;
  }
  for (const auto& key : schema.value("required", nlohmann::json::array())) {
    EXPECT_TRUE(value.contains(key)) << where << " lacks " << key;
  }
  if (value.is_array() && schema.contains("items")) {
    for (const auto& each : value) expect_valid(each, schema.at("items"), where + "[]");
  }
  if (!value.is_object()) return;
  for (const auto& [key, each] : value.items()) {
    const std::string here = where + "." + key;
    if (schema.contains("properties") && schema.at("properties").contains(key)) {
      expect_valid(each, schema.at("properties").at(key), here);
    } else if (const auto more = schema.find("additionalProperties"); more != schema.end()) {
      EXPECT_FALSE(more->is_boolean()) << "no such key: " << here;
      if (more->is_object()) expect_valid(each, *more, here);
    }
  }
}

class ClusterFiles : public testing_cli::SiteTest {
 protected:
  static std::string packaged(const std::string& name) {
    return support::source_path("/packaging/cluster/" + name);
  }
  static std::map<std::string, nlohmann::json> manifests() {
    std::map<std::string, nlohmann::json> by_kind;
    for (const YAML::Node& each : YAML::LoadAllFromFile(packaged("ndtrain-kubernetes.yaml"))) {
      nlohmann::json one = to_json(each);
      const std::string kind = one.at("kind");
      by_kind[kind] = std::move(one);
    }
    return by_kind;
  }
  static nlohmann::json container_of(const nlohmann::json& manifest) {
    return manifest.at("spec").at("template").at("spec").at("containers").at(0);
  }

  // The words of a container, with what is the cluster's replaced by what is here.
  std::vector<std::string> words_of(const nlohmann::json& container,
                                    std::vector<std::pair<std::string, std::string>> here) const {
    here.insert(here.end(), {{"$(NODE)", "node-1.example"},
                             {"/var/lib/ndtrain", at("state")},
                             {"/certs", at("certs")},
                             {"/photos", at("photos")}});
    std::vector<std::string> words;
    for (const char* part : {"command", "args"}) {
      for (std::string word : container.at(part)) {
        for (const auto& [from, to] : here) {
          const size_t found = word.find(from);
          if (found != std::string::npos) word.replace(found, from.size(), to);
        }
        words.push_back(word);
      }
    }
    EXPECT_EQ(words.at(0), "ndtrain");
    words.erase(words.begin());
    return words;
  }

  std::string port_in(const std::string& role, const std::string& before) const {
    const std::regex said(before + R"( \S*:(\d+))");
    std::string port;
    EXPECT_TRUE(comes([&] {
      std::smatch found;
      const std::string all = said_by(role);
      if (std::regex_search(all, found, said)) port = found[1];
      return !port.empty();
    })) << said_by(role);
    return port;
  }

  support::LaunchOutcome sbatch(const std::string& words, const std::string& environment = "",
                                const std::string& flags = "") const {
    // Each Slurm here numbers its jobs from 1, and there are several at the same time.
    const std::string port = std::to_string(20000 + ::getpid() % 3000 * 4);
    return support::sbatch(flags + packaged("ndtrain.sbatch") + " " + words,
                           "NDTRAIN='" + support::program_path() +
                               "' STORE_FLAGS='--labels folder' PORT=" + port + " " + environment,
                           at("."));
  }
};

TEST_F(ClusterFiles, AJobOfSlurmTrainsAndTheNextGoesOnFromIt) {
  if (const std::string why = support::why_no_srun(); !why.empty()) GTEST_SKIP() << why;
  draw_photos(12);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const auto first = sbatch("photos state finetune -m m.onnx -e 1");
  ASSERT_EQ(first.code, 0) << first.said;
  EXPECT_THAT(first.said, HasSubstr("version 1 is in force"));
  EXPECT_THAT(first.said, ::testing::Not(HasSubstr("Killed")));
  const auto next = sbatch("photos state finetune -e 2");
  ASSERT_EQ(next.code, 0) << next.said;
  EXPECT_TRUE(std::regex_search(next.said, std::regex("row_bytes +0\n"))) << next.said;
}

TEST_F(ClusterFiles, AJobOfSlurmOnSeveralNodesTrainsByAGroup) {
  if (const std::string why = support::why_no_nodes(); !why.empty()) GTEST_SKIP() << why;
  draw_photos(12);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const auto done =
      sbatch("photos state finetune -m m.onnx -e 1 --tuners 2", "NODES=3 MEMBERS=1", "-N 3 ");
  ASSERT_EQ(done.code, 0) << done.said;
  EXPECT_THAT(done.said, HasSubstr("version 1 is in force"));
  for (const char* each : {"node1", "node2", "node3"}) {
    EXPECT_THAT(done.said, HasSubstr(std::string("PipeStore ") + each + " dials node1:"));
  }
  EXPECT_THAT(done.said, HasSubstr("2 of 2 Tuners train: this one, member-node2"));
}

TEST_F(ClusterFiles, AJobOfSlurmEndsWhereARoleDoes) {
  if (const std::string why = support::why_no_srun(); !why.empty()) GTEST_SKIP() << why;
  const auto none = sbatch("nowhere state relabel");  // no such photos: the store ends
  EXPECT_EQ(none.code, 1) << none.said;
  EXPECT_THAT(none.said, HasSubstr("ndtrain.sbatch: a role has ended"));
}

TEST_F(ClusterFiles, AJobOfSlurmSaysWhatItLacks) {
  if (const std::string why = support::why_no_srun(); !why.empty()) GTEST_SKIP() << why;
  const auto members = sbatch("photos state finetune", "MEMBERS=1");
  EXPECT_EQ(members.code, 2);
  EXPECT_THAT(members.said, HasSubstr("MEMBERS=1, but besides the Tuner's there are 0 nodes"));
  const auto words = sbatch("photos state");
  EXPECT_EQ(words.code, 2);
  EXPECT_THAT(words.said, HasSubstr("sbatch -N 4 ndtrain.sbatch PHOTOS STATE WORDS"));
}

TEST_F(ClusterFiles, ManifestsAreOfTheSchemaOfKubernetes) {
  const nlohmann::json schema = nlohmann::json::parse(
      real_fs().read(support::source_path("/tests/cli/kubernetes_schema.json")).or_throw());
  const auto all = manifests();
  ASSERT_EQ(all.size(), 3u);
  for (const auto& [kind, manifest] : all) {
    expect_valid(manifest, schema.at(kind), kind);
    if (kind == "Service") continue;
    const nlohmann::json& spec = manifest.at("spec");
    EXPECT_EQ(spec.at("selector").at("matchLabels"),
              spec.at("template").at("metadata").at("labels"));
    std::set<std::string> volumes;
    for (const auto& v : spec.at("template").at("spec").at("volumes")) volumes.insert(v.at("name"));
    for (const auto& v : spec.value("volumeClaimTemplates", nlohmann::json::array())) {
      volumes.insert(v.at("metadata").at("name"));
    }
    for (const auto& mount : container_of(manifest).at("volumeMounts")) {
      EXPECT_THAT(volumes, ::testing::Contains(mount.at("name").get<std::string>()));
    }
  }
  EXPECT_EQ(all.at("Service").at("spec").at("selector"),
            all.at("StatefulSet").at("spec").at("selector").at("matchLabels"));
}

TEST_F(ClusterFiles, RolesServeAsKubernetesBeginsThemAndAnswerItsProbes) {
  draw_photos(4);
  ASSERT_EQ(run({"cert", "init", "certs", "--host", "tuner.ndtrain", "--store", "node-1.example",
                 "--web", "tuner.ndtrain"})
                .code,
            0);
  const auto all = manifests();
  const nlohmann::json tuner = container_of(all.at("StatefulSet"));
  const nlohmann::json store = container_of(all.at("DaemonSet"));
  const std::string image = "ndtrain:0.1.0";  // tests/cli/program_test.cpp holds --version
  EXPECT_EQ(tuner.at("image"), image);
  EXPECT_EQ(store.at("image"), image);

  const pid_t serves = start_as("tuner", words_of(tuner, {{"0.0.0.0:25258", "127.0.0.1:0"},
                                                          {"0.0.0.0:8420", "127.0.0.1:0"}}));
  const std::string link = port_in("tuner", "the Tuner listens on"),
                    http = port_in("tuner", "HTTPS on");
  const pid_t stores =
      start_as("store", words_of(store, {{"tuner.ndtrain:25258", "127.0.0.1:" + link},
                                         {"127.0.0.1:8421", "127.0.0.1:0"}}));
  EXPECT_TRUE(comes([&] { return said_by("tuner").find("node-1.example") != std::string::npos; }))
      << said_by("tuner") << said_by("store");
  for (const char* probe : {"livenessProbe", "readinessProbe"}) {
    const nlohmann::json& get = tuner.at(probe).at("httpGet");
    EXPECT_EQ(get.at("scheme"), "HTTPS");
    const std::string host = get.at("httpHeaders").at(0).at("value");
    EXPECT_EQ(std::system(("curl -sfk -o /dev/null -H 'Host: " + host +
                           "' https://127.0.0.1:" + http + get.at("path").get<std::string>())
                              .c_str()),
              0)
        << probe;
  }
  std::string asked;
  for (std::string word : store.at("livenessProbe").at("exec").at("command")) asked += word + " ";
  asked.replace(asked.find("8421"), 4, port_in("store", "HTTP on"));
  EXPECT_EQ(std::system((asked + "> /dev/null").c_str()), 0) << asked;
  for (const pid_t role : {stores, serves}) kill(role, SIGTERM);
  EXPECT_EQ(end_of(stores, "store").code, 0);
  EXPECT_EQ(end_of(serves, "tuner").code, 0);
}

}  // namespace
}  // namespace ndtrain
