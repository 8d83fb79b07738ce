#include "ndp/pipestore/deletion_follower.h"

#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

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
  const Json json = text.ok() ? try_parse_json(*text) : Json();
  if (!json.is_object()) return {};
  return {json.value("count", uint64_t{0}), json.value("mark", uint64_t{0})};
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
  const Json json = {{"count", m.count()}, {"mark", m.mark()}};
  const std::string path = ports_.state.file(kDeletionsFile);
  const Status kept = status.ok() ? publish(ports_.fs, path, json_text(json) + "\n") : status;
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
