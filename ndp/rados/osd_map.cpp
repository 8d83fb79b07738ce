#include "ndp/rados/osd_map.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <array>
#include <cstdio>

#include "framework/core/json.h"
#include "framework/core/text.h"
#include "ndp/rados/placement_groups.h"

namespace ndtrain::ndp {
namespace {

constexpr int kRjenkins = 2;              // as osd dump has it in object_hash
constexpr uint64_t kMostGroups = 65'536;  // of a pool; Ceph's own limit is below that

// Of a monitor: calls `read` with it; what has other parts than it should is kCorrupt.
template <typename T>
Result<T> ask_monitors(const MonCommand& command, const Json& asked,
                       const std::function<Result<T>(const Json&)>& read) {
  const Result<std::string> text = command(json_text(asked));
  if (!text.ok()) return text.status();
  const Json answer = try_parse_json(*text);
  const std::string what = asked.at("prefix").get<std::string>();
  try {
    if (!answer.is_discarded()) return read(answer);
  } catch (const Json::exception& e) {
    return Status(Code::kCorrupt, "a Ceph monitor's answer to '" + what + "': " + e.what());
  }
  return Status(Code::kCorrupt, "a Ceph monitor's answer to '" + what + "' is no JSON");
}

Json asked_for(const char* prefix) { return {{"prefix", prefix}, {"format", "json"}}; }

// 10.0.0.1:6800 or [fe80::1]:6800, without the port.
std::string host_of_endpoint(const std::string& endpoint) {
  std::string host = endpoint.substr(0, endpoint.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

bool is_at(const Json& osd, const std::set<std::string>& addresses) {
  if (osd.at("up").get<int>() != 1) return false;
  for (const Json& a : osd.at("public_addrs").at("addrvec")) {
    if (addresses.contains(host_of_endpoint(a.at("addr").get<std::string>()))) return true;
  }
  return false;
}

struct PoolFacts {
  int64_t id = 0;
  uint64_t epoch = 0;
  uint32_t groups = 0;
  std::set<int> at_addresses = {};
};

Result<PoolFacts> read_dump(const Json& dump, const std::string& pool,
                            const std::set<std::string>& addresses) {
  PoolFacts facts{.epoch = dump.at("epoch").get<uint64_t>()};
  for (const Json& osd : dump.at("osds")) {
    if (is_at(osd, addresses)) facts.at_addresses.insert(osd.at("osd").get<int>());
  }
  for (const Json& p : dump.at("pools")) {
    if (p.at("pool_name").get<std::string>() != pool) continue;
    const auto groups = p.at("pg_num").get<uint64_t>();
    if (groups < 1 || groups > kMostGroups || p.at("object_hash").get<int>() != kRjenkins) {
      return Status(Code::kUnsupported, "pool " + printable(pool, 256) +
                                            ": its objects are not hashed by rjenkins, or its "
                                            "placement groups are too many");
    }
    facts.id = p.at("pool").get<int64_t>();
    facts.groups = static_cast<uint32_t>(groups);
    return facts;
  }
  return Status(Code::kNotFound, "there is no pool " + printable(pool, 256));
}

struct GroupFacts {
  std::string id;
  int primary = -1;
};

std::string hexadecimal(uint32_t value) {
  std::array<char, 16> text{};
  (void)std::snprintf(text.data(), text.size(), "%x", value);
  return text.data();
}

}  // namespace

Result<uint64_t> osd_epoch(const MonCommand& command) {
  return ask_monitors<uint64_t>(
      command, asked_for("osd stat"),
      [](const Json& answer) -> Result<uint64_t> { return answer.at("epoch").get<uint64_t>(); });
}

Result<OsdMap> read_osd_map(const MonCommand& command, const std::string& pool,
                            const std::set<std::string>& addresses) {
  const Result<PoolFacts> facts =
      ask_monitors<PoolFacts>(command, asked_for("osd dump"),
                              [&](const Json& dump) { return read_dump(dump, pool, addresses); });
  if (!facts.ok()) return facts.status();
  OsdMap map{.epoch = facts->epoch, .primary = {}, .at_addresses = facts->at_addresses};
  Json asked = asked_for("osd map");
  asked["pool"] = pool;
  for (const std::string& name : names_of_groups(facts->groups)) {
    asked["object"] = name;
    const Result<GroupFacts> group =
        ask_monitors<GroupFacts>(command, asked, [](const Json& answer) -> Result<GroupFacts> {
          return GroupFacts{answer.at("pgid").get<std::string>(),
                            answer.at("acting_primary").get<int>()};
        });
    if (!group.ok()) return group.status();
    const std::string expected = std::to_string(facts->id) + "." + hexadecimal(map.groups());
    // The pool was given other groups meanwhile, or its objects are not where we take them to be.
    if (group->id != expected) {
      return Status(Code::kUnavailable, "object " + name + " of pool " + printable(pool, 256) +
                                            " is in placement group " + printable(group->id, 64) +
                                            ", not in " + expected);
    }
    map.primary.push_back(group->primary);
  }
  return map;
}

std::set<std::string> host_addresses() {
  std::set<std::string> addresses;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* address = nullptr;
    if (i->ifa_addr->sa_family == AF_INET) {
      address = &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
    } else if (i->ifa_addr->sa_family == AF_INET6) {
      address = &reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr;
    }
    if (address && inet_ntop(i->ifa_addr->sa_family, address, text.data(), text.size())) {
      addresses.insert(text.data());
    }
  }
  freeifaddrs(all);
  return addresses;
}

}  // namespace ndtrain::ndp
