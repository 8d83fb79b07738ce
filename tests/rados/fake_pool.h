// A Ceph cluster with one pool, in memory: objects of one namespace, and a map that tests change.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ndp/rados/content_mark.h"
#include "ndp/rados/object_pool.h"
#include "ndp/rados/placement_groups.h"

namespace ndtrain::testing {

class FakeCluster {
 public:
  static constexpr uint32_t kGroups = 8;
  struct Object {
    std::string bytes;
    uint64_t version = 0;
    ndp::ObjectAttributes attributes = {};
    int64_t seconds = 1'500'000'000;
  };

  FakeCluster() {
    for (uint32_t g = 0; g < kGroups; ++g) primary.push_back(static_cast<int>(g % 3));
  }

  // Each call: what is asked of the cluster by the pools that are open.
  ndp::OpenObjectPool opens();

  void put(const std::string& name, const std::string& bytes) {
    Object& o = objects[name];
    o.bytes = bytes;
    o.version = ++writes;
  }
  void set_primary(uint32_t group, int osd) {
    primary.at(group) = osd;
    ++epoch;
  }
  // An OSD ends, and the next one acts for it.
  void kill(int osd) {
    for (int& p : primary) p = p == osd ? (osd + 1) % 3 : p;
    down.insert(osd);
    ++epoch;
  }
  uint32_t group_of(const std::string& name) const {
    return ndp::placement_group(nspace, name, kGroups);
  }
  int primary_of(const std::string& name) const { return primary.at(group_of(name)); }

  std::mutex mutex;  // of all that follows, while pools are in use by other threads
  std::string nspace = "july";
  std::map<std::string, Object> objects;
  std::vector<int> primary;  // by group
  std::set<int> down;
  uint64_t epoch = 5, writes = 0;
  int object_hash = 2;
  std::optional<Status> away;        // what all that is asked is answered with
  std::optional<Status> refused;     // what all writes are answered with
  bool answers_lost = false;         // writes are done, and nobody hears of it
  int silent = -1;                   // an OSD that gives each object once, and then answers no more
  int unanswered = 0;                // reads, for that
  std::map<std::string, int> asked;  // commands
  std::vector<uint32_t> listed;      // groups
  std::set<std::string> given;       // objects that were read
};

class FakePool final : public ndp::ObjectPool {
 public:
  explicit FakePool(FakeCluster& cluster) : cluster_(cluster) {}

  Result<std::string> command(const std::string& text) override {
    const std::lock_guard lock(cluster_.mutex);
    if (cluster_.away) return *cluster_.away;
    const nlohmann::json c = nlohmann::json::parse(text);
    const auto prefix = c.at("prefix").get<std::string>();
    ++cluster_.asked[prefix];
    if (prefix == "osd stat") return nlohmann::json({{"epoch", cluster_.epoch}}).dump();
    return prefix == "osd dump" ? dump() : map(c.at("object").get<std::string>());
  }
  Result<std::vector<std::string>> list(uint32_t group, uint32_t groups) override {
    const std::lock_guard lock(cluster_.mutex);
    if (cluster_.away) return *cluster_.away;
    cluster_.listed.push_back(group);
    std::vector<std::string> names;
    for (const auto& [name, object] : cluster_.objects) {
      if (ndp::placement_group(cluster_.nspace, name, groups) == group) names.push_back(name);
    }
    return names;
  }
  std::vector<Result<ndp::ObjectDescription>> describe(
      std::span<const std::string> names) override {
    const std::lock_guard lock(cluster_.mutex);
    std::vector<Result<ndp::ObjectDescription>> all;
    for (const std::string& name : names) {
      const auto o = cluster_.objects.find(name);
      if (cluster_.away) {
        all.emplace_back(*cluster_.away);
      } else if (o == cluster_.objects.end()) {
        all.emplace_back(Status(Code::kNotFound, name + ": none"));
      } else {
        all.emplace_back(ndp::ObjectDescription{facts(o->second), o->second.attributes});
      }
    }
    return all;
  }
  Result<ndp::ObjectBytes> read(const std::string& name, int64_t offset, int64_t size,
                                uint64_t version) override {
    const std::lock_guard lock(cluster_.mutex);
    if (cluster_.away) return *cluster_.away;
    const auto o = cluster_.objects.find(name);
    if (o == cluster_.objects.end()) return Status(Code::kNotFound, name + ": none");
    if (version > 0 && version != o->second.version) return Status(Code::kIo, "overwritten");
    if (!cluster_.given.insert(name).second && cluster_.primary_of(name) == cluster_.silent) {
      ++cluster_.unanswered;
      return Status(Code::kUnavailable, "timed out");
    }
    const std::string& bytes = o->second.bytes;
    const size_t from = std::min(bytes.size(), static_cast<size_t>(offset));
    return ndp::ObjectBytes{facts(o->second), bytes.substr(from, static_cast<size_t>(size))};
  }

  Status add(const std::string& name, std::string_view bytes,
             const ndp::ObjectAttributes& attributes) override {
    const std::lock_guard lock(cluster_.mutex);
    if (Status s = writable(); !s.ok()) return s;
    if (cluster_.objects.contains(name)) return {Code::kExists, name + ": File exists"};
    cluster_.objects[name] = {
        .bytes = std::string(bytes), .version = ++cluster_.writes, .attributes = attributes};
    return written();
  }
  Status remove(const std::string& name) override {
    const std::lock_guard lock(cluster_.mutex);
    if (Status s = writable(); !s.ok()) return s;
    if (cluster_.objects.erase(name) == 0) return {Code::kNotFound, name + ": none"};
    return written();
  }

  std::vector<Status> set_attributes(std::span<const ndp::NewAttributes> all) override {
    const std::lock_guard lock(cluster_.mutex);
    std::vector<Status> said;
    for (const ndp::NewAttributes& some : all) {
      said.push_back(writable());
      const auto o = cluster_.objects.find(some.name);
      if (!said.back().ok()) continue;
      if (o == cluster_.objects.end() || o->second.version != some.object.version) {
        said.back() = Status(Code::kExists, some.name + ": another version");
        continue;
      }
      for (const auto& [name, value] : some.attributes) o->second.attributes[name] = value;
      o->second.version = ++cluster_.writes;
      said.back() = written();
    }
    return said;
  }

 private:
  Status writable() const {
    if (cluster_.away) return *cluster_.away;
    return cluster_.refused.value_or(Status());
  }
  Status written() const {
    return cluster_.answers_lost ? Status(Code::kUnavailable, "timed out") : Status();
  }
  static ndp::ObjectFacts facts(const FakeCluster::Object& o) {
    ndp::ObjectFacts facts{.size = static_cast<int64_t>(o.bytes.size()),
                           .mtime_ns = o.seconds * 1'000'000'000,
                           .version = o.version};
    facts.content = ndp::content_version(facts, o.attributes);
    return facts;
  }
  std::string dump() const {
    nlohmann::json osds = nlohmann::json::array();
    for (int osd = 0; osd < 3; ++osd) {
      const std::string host = osd == 0 ? "127.0.0.1" : "203.0.113." + std::to_string(osd);
      const nlohmann::json address = {{"type", "v2"}, {"addr", host + ":6800"}};
      osds.push_back({{"osd", osd},
                      {"up", cluster_.down.contains(osd) ? 0 : 1},
                      {"public_addrs", {{"addrvec", nlohmann::json::array({address})}}}});
    }
    const nlohmann::json pool = {{"pool", 7},
                                 {"pool_name", "photos"},
                                 {"pg_num", FakeCluster::kGroups},
                                 {"object_hash", cluster_.object_hash}};
    const nlohmann::json all = {
        {"epoch", cluster_.epoch}, {"osds", osds}, {"pools", nlohmann::json::array({pool})}};
    return all.dump();
  }
  std::string map(const std::string& object) const {
    const uint32_t group = ndp::placement_group("", object, FakeCluster::kGroups);
    return nlohmann::json({{"epoch", cluster_.epoch},
                           {"pgid", "7." + std::to_string(group)},
                           {"acting_primary", cluster_.primary[group]}})
        .dump();
  }

  FakeCluster& cluster_;
};

inline ndp::OpenObjectPool FakeCluster::opens() {
  return [this](const std::string& pool,
                const std::string& nspace) -> Result<std::unique_ptr<ndp::ObjectPool>> {
    if (pool != "photos") return Status(Code::kNotFound, "there is no pool " + pool);
    if (nspace != this->nspace) return Status(Code::kNotFound, "nothing is in " + nspace);
    return std::unique_ptr<ndp::ObjectPool>(std::make_unique<FakePool>(*this));
  };
}

}  // namespace ndtrain::testing
