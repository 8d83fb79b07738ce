// Convolutions of 3 by 3 with stride 1 by Winograd's F(4x4, 3x3), see winograd_loops.h: by loops of
// our own, which take a third to a half of the time that the library's direct ones take in f32. Of
// bf16 they compute in f32.
//
// Tiles of several images are computed at once, in runs that threads take in turn; where there are
// fewer runs than threads, the channels of the results are cut too. A pixel has the same bits
// in all of them.
#pragma once

#include <memory>

#include "backends/onednn/conv_plan.h"
#include "backends/onednn/winograd_loops.h"

namespace ndtrain::onednn {

// Whether the loops take the convolution on this processor.
bool can_winograd(const AskedConv& a);

// What the loops are told of it, and the loops for its images.
WinogradShape winograd_shape(const AskedConv& a);
WinogradLoops winograd_loops(ndt_dtype images);
// Of so many blocks, floats from one of the 36 to the next.
int64_t winograd_step(int64_t blocks);

struct WinogradWeights {
  Desc plain;                  // [out, in, 3, 3], as they come
  bool rotated = false;        // each filter by 180 degrees
  const void* data = nullptr;  // null: they change, and come at every run
  uint64_t id = 0;             // of a constant, whose plans share what is made of it; 0: none
};

class Winograd final : public Kernel {
 public:
  // Of an `a` that can_winograd(), for as many images and at most `threads` at once.
  Winograd(const AskedConv& a, const WinogradWeights& weights, int64_t images, int threads);
  void run(const void* const* in, void* const* out, void* workspace) const override;

 private:
  struct Call;

  void cut();
  size_t slot_bytes() const { return m_bytes_ + (parts_ > 1 ? 0 : v_bytes_); }
  WinogradTiles tiles_of(int64_t run) const;
  void by_tiles(const Call& call) const;
  void by_channels(const Call& call) const;
  void multiply(const Call& call, WinogradTiles tiles, const float* v, Run blocks, float* m) const;

  WinogradLoops loops_;
  WinogradShape s_;
  ConvPorts ports_;
  bool bias_, residual_, rotated_;
  int64_t x_step_, y_step_, residual_step_ = 0;  // numbers from one image to the next
  float low_, high_;
  std::shared_ptr<const Packed> u_;  // [36][out blocks][channels][B]; null: they change
  PrimitivePtr reorder_;             // of these, to [out blocks][channels][9][B]
  int64_t tiles_, runs_ = 1, parts_ = 1;
  int threads_, slots_ = 1;
  size_t filters_bytes_ = 0, u_bytes_ = 0;  // of weights that change
  size_t v_bytes_ = 0, m_bytes_ = 0;        // of a run
};

}  // namespace ndtrain::onednn
