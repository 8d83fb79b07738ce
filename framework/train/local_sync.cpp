#include "framework/train/local_sync.h"

#include "framework/core/clock.h"
#include "framework/train/gradient_norm.h"

namespace ndtrain {

void LocalSync::backward_done() {
  if (optimizer_.config().clip_norm > 0) clip();
  optimizer_.apply({0, parameters_.size()}, hyper_, parameters_.gradients(), parameters_.values(),
                   parameters_.values());
}

void LocalSync::clip() {
  const std::chrono::nanoseconds begun = system_clock().monotonic();
  const float* const gradients = parameters_.gradients_on_host(on_host_);
  const Subtree all{0, norm_leaves(parameters_.size())};
  const double squares[] = {sum_of_squares(all, gradients)};
  hyper_.gradient_scale =
      clip_scale(norm_of({&all, 1}, squares, all.end), optimizer_.config().clip_norm);
  clip_exposed_s_ += std::chrono::duration<double>(system_clock().monotonic() - begun).count();
}

}  // namespace ndtrain
