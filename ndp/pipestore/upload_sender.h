// What the Tuner hears of photos that people upload here: the lines of their log, in order, again
// in each session until it keeps them, and the room for more. One thread, the service's.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "framework/core/clock.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/wire/tuner_connection.h"

namespace ndtrain::ndp {

class UploadSender {
 public:
  using Time = TunerConnection::Time;

  struct Ports {
    Clock& clock;
    TunerConnection& tuner;
    UploadLog* log = nullptr;                 // null: nobody uploads
    std::function<wire::Space()> space = {};  // absent: nothing is said of it
  };

  explicit UploadSender(Ports ports) : ports_(std::move(ports)) {}

  void tick();  // while the session is open
  void kept(const wire::UploadsKept& kept);
  void session_over();
  // A Tuner comes that may lack what was kept: it hears again what the log says of each photo.
  // Durable on return. Throws Error.
  void say_all_again();

 private:
  void send_space();
  void send_lines();
  void keep_back_tasks(std::vector<UploadLog::Line>& lines);

  const Ports ports_;
  // Of this session.
  std::deque<std::pair<uint64_t, size_t>> sent_;  // last line and bytes of each message
  uint64_t last_sent_ = 0;                        // line; 0: none
  size_t bytes_ = 0;                              // of these
  wire::Space space_;                             // as the Tuner knows it
  Time space_at_{0};                              // when to look again
  bool kept_back_ = false;                        // it was said that lines wait
};

}  // namespace ndtrain::ndp
