// How fast a link is while something is under way on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

namespace ndtrain {

// The best 100 ms of the last second (StellaTrain, Lim et al., SIGCOMM'24, section 4), or the whole
// of what was under way where that took less.
class LinkRate {
 public:
  static constexpr std::chrono::milliseconds kWindow{100}, kKept{1000};

  static constexpr double kMostMbps = 1e6;  // what is done at once counts as this

  // What was under way together: when each piece of it was done, in any order, and its bytes. Of
  // the first nobody knows how long it took.
  struct Piece {
    std::chrono::nanoseconds done;
    int64_t bytes;
  };
  void add(std::vector<Piece> pieces);

  // 10^6 bits a second, at most kMostMbps; 0 where there is nothing to go by.
  double mbps() const;

 private:
  struct Best {
    std::chrono::nanoseconds at;
    double mbps;
  };
  std::deque<Best> best_;  // of the last second
};

}  // namespace ndtrain
