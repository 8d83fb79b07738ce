// Photos that come from far away, several at a time: while one is used those behind it are on
// their way, so that what each waits for the network is not added up.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "framework/core/status.h"

namespace ndtrain::ndp {

class PhotoReadAhead {
 public:
  using Open = std::function<Result<std::string>(size_t item)>;
  static constexpr int kAtOnce = 16;    // requests under way
  static constexpr size_t kAhead = 64;  // photos that are there or on their way

  // `items` are taken in this order; one may be left out. `open` is called by any of these threads.
  PhotoReadAhead(std::span<const size_t> items, Open open);
  ~PhotoReadAhead();  // waits for requests under way

  // What `open` says of the item; one that is behind those that were taken is opened again. Any
  // thread.
  Result<std::string> take(size_t item);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ndtrain::ndp
