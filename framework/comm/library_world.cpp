#include "framework/comm/library_world.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/json.h"

namespace ndtrain {
namespace {

constexpr uint64_t kWorldTag = ~uint64_t{0} - 1;     // no operation's
constexpr size_t kBytes = 4096;                      // of what a rank says of itself
constexpr size_t kMostReason = 1024, kMostId = 512;  // of these
using Text = std::array<char, kBytes>;

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// What each rank says, to all.
std::vector<Json> tell_all(Transport& messages, const Json& ours) {
  const auto ranks = static_cast<size_t>(messages.ranks());
  std::vector<Text> texts(ranks, Text{});
  Text& own = texts[static_cast<size_t>(messages.rank())];
  json_text_replacing(ours).copy(own.data(), kBytes - 1);
  std::map<Transport::Request, int> under_way;
  for (int r = 0; r < messages.ranks(); ++r) {
    if (r == messages.rank()) continue;
    under_way[messages.send(r, kWorldTag, std::as_bytes(std::span(own)))] = r;
    const std::span<char> into(texts[static_cast<size_t>(r)]);
    under_way[messages.receive(r, kWorldTag, std::as_writable_bytes(into))] = r;
  }
  std::string lost;
  while (!under_way.empty()) {
    std::vector<Transport::Done> done;
    messages.poll(done, std::chrono::hours(1));
    for (const Transport::Done& d : done) {
      if (under_way.erase(d.request) > 0 && !d.status.ok()) lost = d.status.message();
    }
    if (lost.empty()) continue;
    messages.cancel();
    throw Error("a rank is gone: ", lost);
  }
  std::vector<Json> all;
  for (size_t r = 0; r < ranks; ++r) {
    texts[r].back() = '\0';
    all.push_back(try_parse_json(texts[r].data()));
    if (all.back().is_object()) continue;
    throw Error(messages.peer(static_cast<int>(r)), ": what it says of itself is no JSON");
  }
  return all;
}

std::string text_of(const Json& said, const char* key) {
  const auto it = said.find(key);
  return it != said.end() && it->is_string() ? it->get<std::string>() : "";
}

std::vector<uint8_t> id_of(const Json& said) {
  const auto it = said.find("id");
  const auto is_number = [](const Json& j) { return j.is_number_unsigned(); };
  if (it == said.end() || !it->is_array() || !std::ranges::all_of(*it, is_number)) return {};
  return it->get<std::vector<uint8_t>>();
}

void refuse_reasons(const Transport& messages, const std::string& name,
                    const std::vector<Json>& all) {
  for (size_t r = 0; r < all.size(); ++r) {
    const std::string why = text_of(all[r], "why");
    if (why.empty()) continue;
    const bool here = static_cast<int>(r) == messages.rank();
    throw Error(here ? "rank " + std::to_string(r) : messages.peer(static_cast<int>(r)),
                " cannot talk by ", name, ": ", why);
  }
}

void refuse_shared_devices(const std::string& name, const std::vector<Json>& all) {
  for (size_t r = 0; r < all.size(); ++r) {
    for (size_t q = 0; q < r; ++q) {
      const std::string device = text_of(all[r], "device");
      if (device != text_of(all[q], "device")) continue;
      throw Error(
          "ranks ", q, " and ", r, " have one device, ", device, " of ", text_of(all[r], "host"),
          ", and ", name,
          " needs one for each rank: start as many ranks as there are, or give each its own "
          "by CUDA_VISIBLE_DEVICES");
    }
  }
}

// The device that this rank takes, and of rank 0 the id of the world.
Json chosen(const ndt_comm_plugin& plugin, int device, bool first) {
  char name[256] = {};
  if (plugin.use_device(device, name, sizeof name) != NDT_COMM_OK) {
    return {{"why", std::string(plugin.last_error()).substr(0, kMostReason)}};
  }
  Json json = {{"host", host_name()}, {"device", name}};
  if (!first) return json;
  std::vector<uint8_t> id(kMostId);
  size_t bytes = id.size();
  if (plugin.unique_id(id.data(), &bytes) != NDT_COMM_OK) {
    return {{"why", std::string(plugin.last_error()).substr(0, kMostReason)}};
  }
  id.resize(bytes);
  json["id"] = id;
  return json;
}

}  // namespace

LibraryPlace join_library(Transport& messages, const std::string& name, const LibraryOffer& offer) {
  const std::string host = host_name();
  std::string why = offer.why_not;
  if (why.empty() && offer.devices < 1) why = "it sees no device";
  const std::vector<Json> ranks =
      tell_all(messages, {{"host", host}, {"why", why.substr(0, kMostReason)}});
  refuse_reasons(messages, name, ranks);
  const auto before = ranks.begin() + messages.rank();
  const auto here = std::count_if(ranks.begin(), before,
                                  [&](const Json& r) { return text_of(r, "host") == host; });
  const auto device = static_cast<int>(here % offer.devices);
  const std::vector<Json> devices =
      tell_all(messages, chosen(*offer.plugin, device, messages.rank() == 0));
  refuse_reasons(messages, name, devices);
  refuse_shared_devices(name, devices);
  const std::vector<uint8_t> id = id_of(devices[0]);
  LibraryPlace place{.device = device};
  if (offer.plugin->world(id.data(), id.size(), messages.rank(), messages.ranks(), &place.world) !=
      NDT_COMM_OK) {
    throw Error(name, ": ", offer.plugin->last_error());
  }
  return place;
}

}  // namespace ndtrain
