#include "ndp/pipestore/deletion_follower.h"

#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/pipestore/store_lanes.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kDeletionsFile = "deletions.json";

// How many of the Tuner's deletions were heard of, and the mark of that list. None: all come again.
std::pair<uint64_t, uint64_t> read_deletions(Fs& fs, const std::string& path) {
  const Result<std::string> text = fs.read(path);
  if (!text.ok()) return {};
  try {
    const Json json = verified(*text);
    return {json.at("count").get<uint64_t>(), json.at("mark").get<uint64_t>()};
  } catch (const std::exception& e) {
    log::warn("{}: {}; deletions are heard of from the Tuner again", path, e.what());
    return {};
  }
}

}  // namespace

DeletionFollower::DeletionFollower(Ports ports) : ports_(std::move(ports)) {
  const auto [count, mark] = read_deletions(ports_.fs, ports_.state.file(kDeletionsFile));
  ports_.tuner.put_deletions(count, mark);
}

// On the lane where rows are made: inventories after it are without them.
void DeletionFollower::take(const wire::Deletions& m) {
  if (!ports_.forget) return;
  ports_.lanes.start(kStoreLane, [this, m, link = ports_.tuner.link()]() -> Continuation {
    std::vector<Digest> photos(m.photos().size() / sizeof(Digest));
    std::memcpy(photos.data(), m.photos().data(), photos.size() * sizeof(Digest));
    Status status;
    try {
      status = ports_.forget(photos);
    } catch (const std::exception& e) {
      status = {Code::kIo, e.what()};
    }
    return [this, m, link, status] { deleted(link, m, status); };
  });
}

// What could not be deleted, and what came after it, comes again in the next session.
void DeletionFollower::deleted(LinkId link, const wire::Deletions& m, const Status& status) {
  if (link != ports_.tuner.link() || !ports_.tuner.open()) return;
  const std::string path = ports_.state.file(kDeletionsFile);
  const std::string text = checksummed({{"count", m.count()}, {"mark", m.mark()}}, -1);
  const Status kept = status.ok() ? publish(ports_.fs, path, text) : status;
  if (!kept.ok()) {
    log::error("deleted photos are still here: {}", kept.message());
    return ports_.tuner.drop("deleted photos are still here");
  }
  ports_.tuner.put_deletions(m.count(), m.mark());
  wire::FromStore done;
  done.mutable_deleted()->set_count(m.count());
  ports_.tuner.send(std::move(done));
}

}  // namespace ndtrain::ndp
