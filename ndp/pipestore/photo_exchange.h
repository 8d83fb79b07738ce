// Photos' files between stores, through the Tuner: an upload that the disk has changed here is put
// right by what another store has, and others are given what they want. A file comes in parts, one
// at a time. One thread, the service's; files are read and written on the lane.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/hash.h"
#include "framework/core/lanes.h"
#include "ndp/wire/tuner_connection.h"

namespace ndtrain::ndp {

// Of a store's photos.
struct PhotoFiles {
  std::function<std::vector<Digest>()> damaged;                       // uploads; any thread
  std::function<Result<std::string>(const Digest&)> read;             // on the lane
  std::function<Status(const Digest&, const std::string&)> put_back;  // on the lane; durable
};

class PhotoExchange {
 public:
  using Time = TunerConnection::Time;
  static constexpr size_t kPart = size_t{1} << 20;          // bytes
  static constexpr std::chrono::seconds kPatience{60};      // with one part
  static constexpr std::chrono::hours kBetweenAttempts{1};  // at one photo

  struct Ports {
    Clock& clock;
    Lanes& lanes;
    TunerConnection& tuner;
    PhotoFiles files = {};  // without: nobody uploads here
  };
  explicit PhotoExchange(Ports ports) : ports_(std::move(ports)) {}

  void tick();  // while there is a session
  // The Tuner wants a part for another store.
  void give(const wire::PhotoWanted& wanted);
  // Of what this store wants.
  void part(const wire::PhotoPart& part);
  void session_over() { wanted_.reset(); }

 private:
  struct Wanted {
    Digest photo{};
    std::string bytes;  // so far
    Time asked{0};
    bool writing = false;
  };

  Time now() const { return ports_.clock.monotonic(); }
  void ask();
  void failed(const std::string& why);
  void put_back();

  const Ports ports_;
  std::optional<Wanted> wanted_;
  std::map<Digest, Time> tried_;
  // On the lane: the file of which a part was given last.
  std::pair<Digest, std::string> given_;
};

}  // namespace ndtrain::ndp
