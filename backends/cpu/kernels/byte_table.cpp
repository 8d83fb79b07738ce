// ByteTable: y[i] = table[x[i] - lowest].
#include "backends/plugin/byte_table.h"

#include "backends/cpu/kernels/quantize.h"

namespace ndtrain::cpu {
namespace {

std::unique_ptr<Kernel> byte_table(const Node& node) {
  for (const ndt_dtype t : {node.in(0).dtype, node.in(1).dtype}) for_byte(t, []<typename>() {});
  if (count(node.in(1)) != 256) invalid("a table of ", count(node.in(1)));
  const int half = node.in(0).dtype == NDT_I8 ? 128 : 0;  // -128 comes first
  auto k = kernel([n = count(node.in(0)), half](const void* const* in, void* const* out, void*) {
    uint8_t table[256];
    for (int i = 0; i < 256; ++i) table[i] = as<uint8_t>(in[1])[(i + half) % 256];
    parallel_for(n, 4 * kGrain, [&](int64_t begin, int64_t end) {
      look_up(as<uint8_t>(in[0]) + begin, end - begin, table, as<uint8_t>(out[0]) + begin);
    });
  });
  k->in_place_inputs = 1;
  return k;
}

const Registered registered{{"ByteTable", byte_table}};

}  // namespace
}  // namespace ndtrain::cpu
