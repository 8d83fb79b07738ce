#include "backends/onednn/sliced.h"

#include <cstring>

namespace ndtrain::onednn {

void check_float(const Node& node, bool or_bytes) {
  const ndt_dtype t = node.in(0).dtype;
  if (t == NDT_BF16 && !has_avx512()) unsupported("dtype bf16 needs AVX-512");
  if (t == NDT_F32 || t == NDT_BF16) return;
  if (!or_bytes || (t != NDT_U8 && t != NDT_I8)) unsupported("it is not for dtype ", name_of(t));
}

void check_trained_float(const Node& node) {
  check_float(node);
  if (node.in(0).dtype == NDT_BF16 && !has_bf16()) {
    unsupported("this processor has no products of bf16 (AVX-512 BF16 or AMX)");
  }
}

Sliced::Port input_port(int index, const ndt_tensor_type& t, Layout layout) {
  if (has_gaps(t, layout)) unsupported("input ", index, " has gaps");
  return {Sliced::Port::Role::kInput, index, image_step(t, layout) * size_of(t.dtype)};
}

Sliced::Port output_port(int index, const ndt_tensor_type& t, Layout layout) {
  return {Sliced::Port::Role::kOutput, index, image_step(t, layout) * size_of(t.dtype)};
}

void set_output(Sliced::Plan& plan, const ndt_tensor_type& t, Layout layout) {
  const int64_t size = size_of(t.dtype);
  plan.ports.push_back(output_port(0, t, layout));
  plan.rows = {1, image_extent(t, layout) * size, 0};
  if (!has_gaps(t, layout)) return;
  if (layout == Layout::kLast) {
    plan.staged = true;
    plan.rows = {t.dims[2] * t.dims[3], t.dims[1] * size, t.strides[3] * size};
    if (t.dims[3] == 1) plan.rows.step = t.strides[2] * size;
  } else if (plan.sizes.front() == 1) {
    plan.sizes = {1};  // the library wants images one after the other
  } else {
    plan.staged = true;
  }
}

std::vector<Run> runs(int64_t n, int64_t grain, int64_t parts) {
  const int64_t grains = (n + grain - 1) / grain, count = std::min(grains, parts);
  std::vector<Run> all;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = i * grains / count * grain;
    all.push_back({first, std::min(n, (i + 1) * grains / count * grain) - first});
  }
  return all;
}

std::vector<Sliced::Plan::Part> cut_rows(int64_t rows, int64_t in, int64_t out, size_t ports,
                                         int64_t parts,
                                         const std::function<PrimitivePtr(int64_t rows)>& make) {
  constexpr int64_t kGrain = 16;  // rows that the library computes at once
  std::vector<Sliced::Plan::Part> all;
  for (const Run& run : runs(rows, kGrain, parts)) {
    std::vector<int64_t> offsets(ports);
    offsets.front() = run.first * in;
    offsets.back() = run.first * out;
    all.push_back({make(run.n), std::move(offsets)});
  }
  return all;
}

// The largest size that leaves nothing, or enough for another slice.
int64_t Sliced::next_images(int64_t left, int64_t each) const {
  const int64_t least = plan_.sizes.front();
  for (auto size = plan_.sizes.rbegin(); size != plan_.sizes.rend(); ++size) {
    if (*size <= each && (*size == left || left - *size >= least)) return *size;
  }
  return std::min(left, least);
}

Sliced::Sliced(Plan plan) : plan_(std::move(plan)) {
  const int64_t n = plan_.images, least = plan_.sizes.front();
  const int64_t each = std::max(least, plan_.fixed ? n : n / threads());
  const bool cut = cut_images();
  for (int64_t first = 0; first < n && !cut; first += slices_.back().images) {
    const int64_t images = next_images(n - first, each);
    const int64_t size = std::max(images, least);
    PrimitivePtr& p = primitives_[size];
    if (!p) p = plan_.make(size);
    slices_.push_back({first, images, size, p.get()});
    scratch_ = std::max(scratch_, whole_lines(p->scratch()));
    const auto staged = [&](int64_t image) {
      return whole_lines(static_cast<size_t>(size * image));
    };
    if (plan_.staged || size > images) {
      staged_out_ = std::max(staged_out_, staged(plan_.rows.image()));
    }
    if (size > images) staged_in_ = std::max(staged_in_, staged(plan_.ports[0].step));
  }
  slots_ = static_cast<int>(std::min<int64_t>(threads(), static_cast<int64_t>(slices_.size())));
  workspace_bytes = static_cast<size_t>(slots_) * (scratch_ + staged_in_ + staged_out_);
}

bool Sliced::cut_images() {
  const int64_t n = plan_.images, size = plan_.sizes.front();
  if (!plan_.cut || plan_.staged || n >= threads()) return false;
  try {
    const int64_t groups = (n + size - 1) / size;
    parts_ = plan_.cut((threads() + groups - 1) / groups);
  } catch (const Unsupported&) {
    return false;
  }
  if (parts_.size() < 2) return false;
  for (int64_t first = 0; first < n; first += size) {
    for (const Plan::Part& part : parts_) {
      const int64_t images = std::min(size, n - first);
      slices_.push_back({first, images, size, part.primitive.get(), &part});
      scratch_ = std::max(scratch_, whole_lines(part.primitive->scratch()));
      if (size > 1) staged_out_ = std::max(staged_out_, whole_lines(part.bytes()));
    }
  }
  if (size > 1) staged_in_ = whole_lines(static_cast<size_t>(size * plan_.ports[0].step));
  return true;
}

void Sliced::run(const void* const* in, void* const* out, void* workspace) const {
  const size_t slot_bytes = scratch_ + staged_in_ + staged_out_;
  std::atomic<bool> failed{false};
  parallel_tasks(static_cast<int64_t>(slices_.size()), slots_, [&](int64_t i, int slot) {
    char* scratch = static_cast<char*>(workspace) + static_cast<size_t>(slot) * slot_bytes;
    try {
      run_slice(slices_[static_cast<size_t>(i)], in, out, scratch);
    } catch (const std::exception&) {  // the library answers with no more than a status
      failed = true;
    }
  });
  if (failed) invalid("oneDNN could not run ", slices_.front().primitive->algorithm());
}

void Sliced::run_slice(const Slice& s, const void* const* in, void* const* out,
                       char* scratch) const {
  const Plan& p = plan_;
  const Port& last = p.ports.back();
  const auto offset = [&](size_t port) { return s.part ? s.part->offsets[port] : 0; };
  const int64_t into_image = offset(p.ports.size() - 1);
  // A part is whole rows, or all that it makes of an image.
  const Plan::Rows rows =
      s.part ? Plan::Rows{1, static_cast<int64_t>(s.part->bytes()) / s.size, 0} : p.rows;
  char* const y = static_cast<char*>(out[last.index]) + s.first * last.step + into_image;
  const bool filled = s.size > s.images, staged = p.staged || filled || (s.part && s.size > 1);
  char* const target = staged ? scratch + scratch_ + staged_in_ : y;
  const int64_t target_step = staged ? rows.image() : last.step;
  if (p.residual >= 0) {
    const char* r =
        static_cast<const char*>(in[p.residual]) + s.first * p.residual_step + into_image;
    for (int64_t i = 0; i < s.images && r != target; ++i) {
      std::memcpy(target + i * target_step, r + i * p.residual_step,
                  static_cast<size_t>(rows.image()));
    }
  }
  void* data[8] = {};
  for (size_t k = 0; k + 1 < p.ports.size(); ++k) {
    const Port& port = p.ports[k];
    const void* from = port.role == Port::Role::kFixed ? port.data : in[port.index];
    data[k] = const_cast<char*>(static_cast<const char*>(from) + s.first * port.step + offset(k));
  }
  if (filled) {
    char* const copies = scratch + scratch_;
    const int64_t step = p.ports[0].step;
    for (int64_t i = 0; i < s.size; ++i) {
      std::memcpy(copies + i * step, static_cast<char*>(data[0]) + i % s.images * step,
                  static_cast<size_t>(step));
    }
    data[0] = copies;
  }
  data[p.ports.size() - 1] = target;
  s.primitive->run(data, scratch);
  if (!staged) return;
  for (int64_t i = 0; i < s.images; ++i) {
    for (int64_t row = 0; row < rows.rows; ++row) {
      std::memcpy(y + i * last.step + row * rows.step, target + i * target_step + row * rows.bytes,
                  static_cast<size_t>(rows.bytes));
    }
  }
}

}  // namespace ndtrain::onednn
