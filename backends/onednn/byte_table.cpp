// ByteTable: there to keep the layout that convolutions give.
#include "backends/plugin/byte_table.h"

#include <array>

#include "backends/onednn/ops.h"

namespace ndtrain::onednn {
namespace {

constexpr int64_t kTableGrain = 65536;

class ByteTable final : public Kernel {
 public:
  ByteTable(const Node& node, Layout layout)
      : n_(node.in(0).dims[0] * image_extent(node.in(0), layout)) {
    const auto* table = static_cast<const uint8_t*>(node.need_constant(1, "table"));
    const size_t half = node.in(0).dtype == NDT_I8 ? 128 : 0;  // -128 comes first
    for (size_t i = 0; i < table_.size(); ++i) table_[i] = table[(i + half) % table_.size()];
    in_place_inputs = 1;
    packed_inputs = uint64_t{1} << 1;
  }

  void run(const void* const* in, void* const* out, void*) const override {
    const auto* x = static_cast<const uint8_t*>(in[0]);
    auto* y = static_cast<uint8_t*>(out[0]);
    parallel_for(n_, kTableGrain, [&](int64_t begin, int64_t end) {
      look_up(x + begin, end - begin, table_.data(), y + begin);
    });
  }

 private:
  int64_t n_;
  std::array<uint8_t, 256> table_;
};

// The layout of what it reads and writes.
Layout table_layout(const Node& node) {
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  for (const ndt_tensor_type* t : {&x, &y, &node.in(1)}) {
    if (t->dtype != NDT_U8 && t->dtype != NDT_I8) unsupported("it is not of bytes");
  }
  if (count(x) == 0 || count(node.in(1)) != 256) unsupported("it is empty or not of 256 results");
  const Layout layout = layout_of(x, "input 0");
  if (layout == Layout::kBlocked) unsupported("its input is blocked");
  if (!lies(y, layout) || has_gaps(x, layout) || has_gaps(y, layout)) {
    unsupported("its input and output do not lie alike without gaps");
  }
  return layout;
}

}  // namespace

std::unique_ptr<Kernel> prepare_byte_table(const ndt_device&, const Node& node) {
  return std::make_unique<ByteTable>(node, table_layout(node));
}

void prefer_byte_table(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  const Layout layout = layout_of(in[0], "input 0");
  set_layout(in[0], layout);
  set_layout(out[0], layout);
  const ndt_node wanted = node.with(in, out);
  (void)table_layout(Node(wanted));
}

}  // namespace ndtrain::onednn
