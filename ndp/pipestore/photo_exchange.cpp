#include "ndp/pipestore/photo_exchange.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "ndp/pipestore/store_lanes.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {

void PhotoExchange::tick() {
  if (!ports_.files.damaged || !ports_.tuner.open() || !ports_.tuner.relays_photos()) return;
  if (wanted_ && !wanted_->writing && now() - wanted_->asked > kPatience) {
    failed("nothing came within a minute");
  }
  if (wanted_) return;
  for (const Digest& photo : ports_.files.damaged()) {
    const auto tried = tried_.find(photo);
    if (tried != tried_.end() && now() - tried->second < kBetweenAttempts) continue;
    tried_[photo] = now();
    wanted_ = Wanted{.photo = photo};
    return ask();
  }
}

void PhotoExchange::ask() {
  wanted_->asked = now();
  wire::FromStore m;
  m.mutable_photo_wanted()->set_sha256(bytes_of(wanted_->photo));
  m.mutable_photo_wanted()->set_offset(wanted_->bytes.size());
  ports_.tuner.send(std::move(m));
}

void PhotoExchange::failed(const std::string& why) {
  log::warn("photo {}: its upload here is damaged, and no other store puts it right: {}",
            to_hex(wanted_->photo), why);
  wanted_.reset();
}

// What is late, or was asked for in another session, is nobody's.
void PhotoExchange::part(const wire::PhotoPart& part) {
  if (!wanted_ || wanted_->writing || part.sha256() != bytes_of(wanted_->photo)) return;
  if (part.offset() != wanted_->bytes.size()) return;
  if (!part.failure().empty()) return failed(part.failure());
  if (xxh3(part.bytes().data(), part.bytes().size()) != part.checksum()) {
    return ports_.tuner.drop("a part of a photo with a wrong checksum");
  }
  if (part.bytes().empty() || wanted_->bytes.size() + part.bytes().size() > part.total()) {
    return failed("it comes in parts that are none");
  }
  wanted_->bytes += part.bytes();
  wanted_->bytes.size() < part.total() ? ask() : put_back();
}

void PhotoExchange::put_back() {
  wanted_->writing = true;
  ports_.lanes.start(
      kStoreLane,
      [this, photo = wanted_->photo, file = std::move(wanted_->bytes)]() -> Continuation {
        Status s;
        try {
          s = ports_.files.put_back(photo, file);
        } catch (const std::exception& e) {
          s = {Code::kIo, e.what()};
        }
        return [this, photo, s] {
          if (s.ok()) {
            log::info(
                "photo {}: the upload that the disk had changed is put right from another store",
                to_hex(photo));
          }
          if (!wanted_ || wanted_->photo != photo) return;  // another session by now
          s.ok() ? wanted_.reset() : failed(s.message());
        };
      });
}

void PhotoExchange::give(const wire::PhotoWanted& wanted) {
  if (!ports_.files.read) return;
  ports_.lanes.start(kStoreLane, [this, wanted, link = ports_.tuner.link()]() -> Continuation {
    wire::FromStore m;
    wire::PhotoPart& part = *m.mutable_photo_part();
    part.set_sha256(wanted.sha256());
    part.set_offset(wanted.offset());
    const Digest photo = *digest_of(wanted.sha256());
    Result<std::string> file = given_.first == photo && !given_.second.empty()
                                   ? std::move(given_.second)
                                   : ports_.files.read(photo);
    given_ = {};
    if (!file.ok()) {
      part.set_failure(wire::as_text(file.status().message()));
    } else if (wanted.offset() >= file->size()) {
      part.set_failure("the photo has " + std::to_string(file->size()) + " bytes");
    } else {
      const std::string_view bytes = std::string_view(*file).substr(wanted.offset(), kPart);
      part.set_total(file->size());
      part.set_bytes(std::string(bytes));
      part.set_checksum(xxh3(bytes.data(), bytes.size()));
      if (wanted.offset() + bytes.size() < file->size()) given_ = {photo, std::move(*file)};
    }
    return [this, m, link] {
      if (link == ports_.tuner.link() && ports_.tuner.open()) ports_.tuner.send(m);
    };
  });
}

}  // namespace ndtrain::ndp
