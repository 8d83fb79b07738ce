#include "tuner/jobs/manifest_file.h"

#include <cstring>
#include <numeric>
#include <span>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "framework/core/running_xxh3.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr size_t kPart = size_t{1} << 20;  // bytes that are written at once

// A map in CBOR on its way to a file, and what comes of it as a sum behind.
class CborMap {
 public:
  CborMap(Publisher& to, uint8_t entries) : to_(to) { head(Major::kMap, entries); }

  void text(std::string_view s) {
    head(Major::kText, s.size());
    put(s.data(), s.size());
  }
  void number(int64_t n) {
    n < 0 ? head(Major::kNegative, static_cast<uint64_t>(-(n + 1)))
          : head(Major::kUnsigned, static_cast<uint64_t>(n));
  }
  void begin_bytes(uint64_t n) { head(Major::kBytes, n); }
  void begin_array(uint64_t n) { head(Major::kArray, n); }
  void put(const void* data, size_t bytes) {
    part_.append(static_cast<const char*>(data), bytes);
    if (part_.size() >= kPart) flush();
  }
  Status finish() {
    flush();
    const uint64_t sum = sum_.sum();
    if (status_.ok()) status_ = to_.write(std::as_bytes(std::span(&sum, 1)));
    return status_;
  }

 private:
  enum class Major : uint8_t { kUnsigned, kNegative, kBytes, kText, kArray, kMap };

  void head(Major major, uint64_t n) {
    const auto type = static_cast<uint8_t>(static_cast<uint8_t>(major) << 5);
    if (n < 24) return byte(type | n);
    const int log2 = n <= UINT8_MAX ? 0 : n <= UINT16_MAX ? 1 : n <= UINT32_MAX ? 2 : 3;
    byte(type | (24 + log2));
    for (int shift = (8 << log2) - 8; shift >= 0; shift -= 8) byte(n >> shift);
  }
  void byte(uint64_t b) {
    const auto c = static_cast<char>(b);
    put(&c, 1);
  }
  void flush() {
    const auto bytes = std::as_bytes(std::span(part_));
    sum_.update(bytes);
    if (status_.ok()) status_ = to_.write(bytes);
    part_.clear();
  }

  Publisher& to_;
  RunningXxh3 sum_;
  std::string part_;
  Status status_;
};

void add(CborMap& map, const char* key, const std::vector<std::string>& texts) {
  map.text(key);
  map.begin_array(texts.size());
  for (const std::string& t : texts) map.text(t);
}

template <typename F>
void add(CborMap& map, const char* key, const Manifest& m, const F& of_entry) {
  map.text(key);
  map.begin_array(m.size());
  for (uint64_t n = 0; n < m.size(); ++n) map.number(of_entry(m.entry(n)));
}

void add_holders(CborMap& map, const Manifest& m) {
  uint64_t all = 0;
  for (uint64_t n = 0; n < m.size(); ++n) all += m.entry(n).holders.size();
  map.text("holders");
  map.begin_array(all);
  for (uint64_t n = 0; n < m.size(); ++n) {
    for (const uint32_t holder : m.entry(n).holders) map.number(holder);
  }
}

}  // namespace

Status write_manifest(Fs& fs, const std::string& path, const Manifest& m,
                      const std::vector<std::string>& stores) {
  Result<Publisher> publisher = Publisher::start(fs, path);
  if (!publisher.ok()) return publisher.status();
  CborMap map(*publisher, 9);
  add(map, "stores", stores);
  add(map, "classes", m.classes());
  map.text("runs");
  map.number(m.runs());
  map.text("digests");
  map.begin_bytes(m.size() * sizeof(Digest));
  for (uint64_t n = 0; n < m.size(); ++n) map.put(m.entry(n).digest.data(), sizeof(Digest));
  add_holders(map, m);
  add(map, "holder_counts", m, [](const auto& e) { return std::ssize(e.holders); });
  add(map, "run", m, [](const auto& e) { return e.run; });
  add(map, "label", m, [](const auto& e) { return e.label; });
  add(map, "label_time", m, [](const auto& e) { return e.label_time; });
  if (Status s = map.finish(); !s.ok()) return s;
  return publisher->commit();
}

SavedManifest manifest_from(const Json& json, std::pmr::memory_resource* memory) {
  const auto& digests = json.at("digests").get_binary();
  const auto runs = json.at("run").get<std::vector<uint32_t>>();
  const auto labels = json.at("label").get<std::vector<int32_t>>();
  // One that an older version kept has none.
  const auto times = json.value("label_time", std::vector<int64_t>(runs.size()));
  const auto counts = json.at("holder_counts").get<std::vector<uint32_t>>();
  const auto holders = json.at("holders").get<std::vector<uint32_t>>();
  const size_t all = std::accumulate(counts.begin(), counts.end(), size_t{0});
  if (digests.size() != runs.size() * sizeof(Digest) || all != holders.size()) {
    throw Error("its parts do not fit");
  }
  Manifest::Entries entries(runs.size(), memory);
  auto holder = holders.begin();
  for (size_t n = 0; n < entries.size(); ++n) {
    Manifest::Entry& e = entries[n];
    std::memcpy(e.digest.data(), digests.data() + n * sizeof(Digest), sizeof(Digest));
    e.run = runs.at(n);
    e.label = labels.at(n);
    e.label_time = times.at(n);
    for (uint32_t i = 0; i < counts.at(n); ++i) e.holders.push_back(*holder++);
  }
  return {Manifest(std::move(entries), json.at("classes").get<std::vector<std::string>>(),
                   json.at("runs").get<uint32_t>()),
          json.at("stores").get<std::vector<std::string>>()};
}

}  // namespace ndtrain::tuner
