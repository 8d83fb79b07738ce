#include "ndp/pipestore/trash_follower.h"

#include <fmt/format.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "framework/core/log.h"
#include "ndp/pipestore/store_lanes.h"

namespace ndtrain::ndp {
namespace {

void add_digests(const std::string& bytes, std::vector<Digest>& to) {
  const size_t before = to.size(), n = bytes.size() / sizeof(Digest);
  to.resize(before + n);
  if (n > 0) std::memcpy(to.data() + before, bytes.data(), n * sizeof(Digest));
}

}  // namespace

TrashFollower::TrashFollower(Ports ports) : ports_(std::move(ports)) {
  if (ports_.trash) ports_.tuner.put_trash(ports_.trash->revision());
}

void TrashFollower::session_over() {
  photos_.clear();
  restored_.clear();
}

void TrashFollower::take(const wire::Trash& m) {
  if (!ports_.trash) return;
  const size_t more = (m.photos().size() + m.restored().size()) / sizeof(Digest);
  if (photos_.size() + restored_.size() + more > ports_.most) {
    return ports_.tuner.refuse(
        fmt::format("what is in the trash has more than {} photos", ports_.most));
  }
  add_digests(m.photos(), photos_);
  add_digests(m.restored(), restored_);
  if (!m.last()) return;
  ports_.lanes.start(
      kStoreLane,
      [this, whole = m.whole(), revision = m.revision(), link = ports_.tuner.link(),
       photos = std::exchange(photos_, {}),
       restored = std::exchange(restored_, {})]() -> Continuation {
        const Status s = whole ? ports_.trash->replace({photos.begin(), photos.end()}, revision)
                               : ports_.trash->change(photos, restored, revision);
        return [this, link, back = whole || !restored.empty(), s] { kept(link, back, s); };
      });
}

// What could not be kept comes again in the next session.
void TrashFollower::kept(LinkId link, bool some_back, const Status& status) {
  ports_.tuner.put_trash(ports_.trash->revision());
  if (status.ok() && ports_.changed) ports_.changed(some_back);
  if (status.ok() || link != ports_.tuner.link() || !ports_.tuner.open()) return;
  log::error("what is in the trash cannot be kept: {}", status.message());
  ports_.tuner.drop("what is in the trash cannot be kept");
}

}  // namespace ndtrain::ndp
