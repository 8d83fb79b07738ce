#include "backends/onednn/winograd.h"

#include <limits>

#include "backends/onednn/activation.h"

namespace ndtrain::onednn {
namespace {

constexpr int64_t kTiles = 64;       // of a run: for so many the weights are read once
constexpr int64_t kLeastTiles = 12;  // of one that is there for one more thread

int64_t in_tiles(int64_t pixels) { return (pixels + kWinogradTile - 1) / kWinogradTile; }

size_t bytes_of(int64_t floats) { return whole_lines(static_cast<size_t>(floats) * sizeof(float)); }

Desc blocked(const Dims& dims) {
  using Tag = dnnl::memory::format_tag;
  return {dims, dnnl::memory::data_type::f32, block() == 16 ? Tag::Abcd16a : Tag::Abcd8a};
}

// Of all filters, a block of results at a time.
void transform_all(const WinogradLoops& loops, const WinogradShape& s, bool rotated, int threads,
                   const float* w, float* u) {
  const int64_t channels = s.in_blocks * block(), of_block = channels * block();
  parallel_tasks(s.out_blocks, threads, [&](int64_t o, int) {
    loops.filters(w + o * of_block * 9, channels, rotated, u + o * of_block,
                  s.out_blocks * of_block);
  });
}

}  // namespace

bool can_winograd(const AskedConv& a) {
  const ConvShape& s = a.shape;
  const ndt_dtype t = a.x.dtype;
  const bool alike = a.y.dtype == t && a.weights_dtype == t &&
                     (!a.how.bias || *a.how.bias == plain_desc({s.out}, t)) &&
                     a.from == Layout::kBlocked && a.to == Layout::kBlocked;
  return alike && (t == NDT_F32 || t == NDT_BF16) && count(a.y) > 0 && s.groups == 1 &&
         !s.changed() && s.height == 3 && s.width == 3 && s.strides == Dims{1, 1} &&
         s.dilations == Dims{0, 0} && s.in % block() == 0 && s.out % block() == 0 &&
         is_clamp(a.how.finish.activation) && (block() == 16 || __builtin_cpu_supports("avx2"));
}

WinogradLoops winograd_loops(ndt_dtype images) {
  const bool bf16 = images == NDT_BF16;
  return block() == 16 ? v4::winograd_loops(bf16) : v3::winograd_loops(bf16);
}

WinogradShape winograd_shape(const AskedConv& a) {
  return {.in_blocks = a.shape.in / block(),
          .out_blocks = a.shape.out / block(),
          .height = a.x.dims[2],
          .width = a.x.dims[3],
          .top = a.shape.begin[0],
          .left = a.shape.begin[1],
          .out_height = a.y.dims[2],
          .out_width = a.y.dims[3],
          .tile_columns = in_tiles(a.y.dims[3]),
          .tiles = in_tiles(a.y.dims[2]) * in_tiles(a.y.dims[3])};
}

// An odd number of lines, so that what is of one place is not all in one set of the cache.
int64_t winograd_step(int64_t blocks) { return (blocks | 1) * block(); }

struct Winograd::Call {
  const void* x;
  const float* u;
  WinogradFinish finish;
  void* y;
  char* scratch;
};

Winograd::Winograd(const AskedConv& a, const WinogradWeights& weights, int64_t images, int threads)
    : loops_(winograd_loops(a.x.dtype)),
      s_(winograd_shape(a)),
      ports_(a.ports),
      bias_(a.how.bias),
      residual_(a.how.finish.sum),
      rotated_(weights.rotated),
      x_step_(image_step(a.x, a.from)),
      y_step_(image_step(a.y, a.to)),
      residual_step_(image_extent(a.y, a.to)),
      tiles_(images * s_.tiles),
      threads_(threads) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::optional<Activation>& clamp = a.how.finish.activation;
  const bool clip = clamp && clamp->kind == dnnl::algorithm::eltwise_clip;
  low_ = clip ? clamp->alpha : clamp ? 0 : -kInfinity;
  high_ = clip ? clamp->beta : kInfinity;
  if (residual_) in_place_inputs = uint64_t{1} << ports_.residual;
  const Desc filters = blocked(a.shape.weights());
  const Desc u = plain_desc({kWinogradPositions, s_.out_blocks, a.shape.in, block()}, NDT_F32);
  if (weights.data) {
    packed_inputs = uint64_t{1} << ports_.weights;
    u_ = shared_weights(weights.id, weights.plain, u, [&] {
      const auto w = pack(weights.plain, weights.data, filters);
      auto made = std::make_shared<const Packed>(u);
      transform_all(loops_, s_, rotated_, threads, static_cast<const float*>(w->data()),
                    static_cast<float*>(made->data()));
      return made;
    });
  } else {
    reorder_ = reorder(weights.plain, filters);
    filters_bytes_ = whole_lines(std::max(filters.get_size(), reorder_->scratch()));
    u_bytes_ = whole_lines(u.get_size());
  }
  cut();
}

// Runs such that no thread waits long; too few for the threads: parts of the channels.
void Winograd::cut() {
  int64_t blocks = s_.out_blocks;  // of a part
  runs_ = (tiles_ + kTiles - 1) / kTiles;
  if (runs_ >= threads_) {
    runs_ = std::min((runs_ + threads_ - 1) / threads_ * threads_, tiles_);
  } else {
    const int64_t pairs = (s_.out_blocks + 1) / 2;
    parts_ = std::min(pairs, (threads_ + runs_ - 1) / runs_);
    blocks = (pairs + parts_ - 1) / parts_ * 2;
    runs_ = std::max(runs_, std::min((threads_ + parts_ - 1) / parts_, tiles_ / kLeastTiles));
  }
  const int64_t most = (tiles_ + runs_ - 1) / runs_;
  v_bytes_ = bytes_of(kWinogradPositions * winograd_step(s_.in_blocks * most));
  m_bytes_ = bytes_of(kWinogradPositions * winograd_step(blocks * most));
  slots_ = static_cast<int>(std::min<int64_t>(threads_, runs_ * parts_));
  workspace_bytes = filters_bytes_ + u_bytes_ + static_cast<size_t>(slots_) * slot_bytes();
  if (parts_ > 1) workspace_bytes += static_cast<size_t>(runs_) * v_bytes_;
}

WinogradTiles Winograd::tiles_of(int64_t run) const {
  const int64_t first = run * tiles_ / runs_;
  return {first, (run + 1) * tiles_ / runs_ - first};
}

void Winograd::run(const void* const* in, void* const* out, void* workspace) const {
  char* scratch = static_cast<char*>(workspace);
  Call call{.x = in[0],
            .u = u_ ? static_cast<const float*>(u_->data()) : nullptr,
            .finish = {.low = low_, .high = high_},
            .y = out[0],
            .scratch = scratch + filters_bytes_ + u_bytes_};
  if (bias_) call.finish.bias = in[ports_.bias];
  if (residual_) call.finish.residual = {in[ports_.residual], residual_step_};
  if (!u_) {
    auto* const u = reinterpret_cast<float*>(scratch + filters_bytes_);
    void* const ends[] = {const_cast<void*>(in[ports_.weights]), scratch};
    reorder_->run(ends, u);
    transform_all(loops_, s_, rotated_, threads_, reinterpret_cast<const float*>(scratch), u);
    call.u = u;
  }
  parts_ > 1 ? by_channels(call) : by_tiles(call);
}

void Winograd::multiply(const Call& call, WinogradTiles tiles, const float* v, Run blocks,
                        float* m) const {
  const int64_t of_block = s_.in_blocks * block() * block();
  const int64_t v_step = winograd_step(s_.in_blocks * tiles.count),
                m_step = winograd_step(blocks.n * tiles.count);
  for (int64_t p = 0; p < kWinogradPositions; ++p) {
    const float* const u = call.u + (p * s_.out_blocks + blocks.first) * of_block;
    const float* const next = p + 1 < kWinogradPositions ? u + s_.out_blocks * of_block : u;
    loops_.multiply(u, blocks.n, v + p * v_step, s_.in_blocks, tiles.count, next, m + p * m_step);
  }
  loops_.results(s_, m, m_step, tiles, blocks.first, blocks.first + blocks.n, call.finish, call.y,
                 y_step_);
}

void Winograd::by_tiles(const Call& call) const {
  parallel_tasks(runs_, slots_, [&](int64_t run, int slot) {
    char* const scratch = call.scratch + static_cast<size_t>(slot) * slot_bytes();
    auto* const v = reinterpret_cast<float*>(scratch);
    const WinogradTiles tiles = tiles_of(run);
    loops_.images(s_, {call.x, x_step_}, tiles, 0, s_.in_blocks, v,
                  winograd_step(s_.in_blocks * tiles.count));
    multiply(call, tiles, v, {0, s_.out_blocks}, reinterpret_cast<float*>(scratch + v_bytes_));
  });
}

void Winograd::by_channels(const Call& call) const {
  const auto v_of = [&](int64_t run) {
    return reinterpret_cast<float*>(call.scratch + static_cast<size_t>(run) * v_bytes_);
  };
  const int64_t shares = std::min(parts_, s_.in_blocks);
  parallel_tasks(runs_ * shares, slots_, [&](int64_t task, int) {
    const int64_t run = task / shares, share = task % shares;
    const WinogradTiles tiles = tiles_of(run);
    loops_.images(s_, {call.x, x_step_}, tiles, share * s_.in_blocks / shares,
                  (share + 1) * s_.in_blocks / shares, v_of(run),
                  winograd_step(s_.in_blocks * tiles.count));
  });
  const int64_t pairs = (s_.out_blocks + 1) / 2;
  char* const slots = call.scratch + static_cast<size_t>(runs_) * v_bytes_;
  parallel_tasks(runs_ * parts_, slots_, [&](int64_t task, int slot) {
    const int64_t run = task / parts_, part = task % parts_;
    const int64_t first = part * pairs / parts_ * 2,
                  end = std::min((part + 1) * pairs / parts_ * 2, s_.out_blocks);
    multiply(call, tiles_of(run), v_of(run), {first, end - first},
             reinterpret_cast<float*>(slots + static_cast<size_t>(slot) * slot_bytes()));
  });
}

}  // namespace ndtrain::onednn
