#include "backends/cuda/dnn/staged.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "backends/cuda/layout.h"

namespace ndtrain::cuda {
namespace {

constexpr size_t kLine = 256;
constexpr size_t kMostPorts = 8;

size_t whole_lines(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// In the order in which the destination lies.
StridedCopy copy_between(const ndt_tensor_type& from, const ndt_tensor_type& to) {
  if (to.rank > StridedCopy::kMostDims) unsupported("its rank is ", to.rank);
  std::array<int, NDT_MAX_RANK> order{};
  std::iota(order.begin(), order.begin() + to.rank, 0);
  std::stable_sort(order.begin(), order.begin() + to.rank,
                   [&](int a, int b) { return to.strides[a] > to.strides[b]; });
  StridedCopy copy{.rank = to.rank, .element_bytes = static_cast<int>(size_of(to.dtype))};
  for (int i = 0; i < to.rank; ++i) {
    const int d = order[static_cast<size_t>(i)];
    copy.dims[i] = to.dims[d];
    copy.to[i] = to.strides[d];
    copy.from[i] = from.strides[d];
  }
  return copy;
}

}  // namespace

Staged::Staged(Plan plan, std::vector<Port> ports, std::optional<After> after)
    : plan_(std::move(plan)), ports_(std::move(ports)), after_(after) {
  if (ports_.size() > kMostPorts) invalid(ports_.size(), " ports of a staged kernel");
  workspace_bytes = whole_lines(plan_.workspace_bytes());
  for (const Port& p : ports_) {
    Place place;
    place.staged = p.role != Port::Role::kFixed && !lie_alike(p.outside, p.inside);
    if (place.staged) {
      place.offset = workspace_bytes;
      place.copy = p.role == Port::Role::kInput ? copy_between(p.outside, p.inside)
                                                : copy_between(p.inside, p.outside);
      workspace_bytes +=
          whole_lines(static_cast<size_t>(count(p.inside) * size_of(p.inside.dtype)));
    }
    places_.push_back(place);
  }
}

void Staged::run(ndt_stream& stream, const void* const* in, void* const* out,
                 void* workspace) const {
  std::array<void*, kMostPorts> at{};
  for (size_t i = 0; i < ports_.size(); ++i) {
    const Port& p = ports_[i];
    void* const outside = p.role == Port::Role::kFixed    ? p.data->data()
                          : p.role == Port::Role::kOutput ? out[p.index]
                                                          : const_cast<void*>(in[p.index]);
    at[i] = places_[i].staged ? static_cast<char*>(workspace) + places_[i].offset : outside;
    if (places_[i].staged && p.role == Port::Role::kInput) {
      copy_strided(places_[i].copy, outside, at[i], stream.stream);
    }
  }
  plan_.run(stream.dnn, at.data(), workspace);
  if (after_) {
    const auto address = [&](int port) {
      return port < 0 ? nullptr : at[static_cast<size_t>(port)];
    };
    finish(after_->how, address(after_->y), address(after_->bias), address(after_->residual),
           stream.stream);
  }
  for (size_t i = 0; i < ports_.size(); ++i) {
    if (!places_[i].staged || ports_[i].role != Port::Role::kOutput) continue;
    copy_strided(places_[i].copy, at[i], out[ports_[i].index], stream.stream);
  }
}

}  // namespace ndtrain::cuda
