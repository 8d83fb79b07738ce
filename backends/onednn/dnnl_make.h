// How primitives are made of any version of the library. For dnnl*.cpp alone.
#pragma once

#include <utility>
#include <vector>

#include "backends/onednn/dnnl.h"
#include "backends/onednn/node.h"

namespace ndtrain::onednn {

const dnnl::engine& engine();

// The library is built for OpenMP; threads are the host's. The setting belongs to the thread that
// makes or runs a primitive.
void stay_in_this_thread();

// What every primitive is made by: `describe` gives the library's primitive descriptor, and may add
// to `fixed`.
template <typename P, typename F>
PrimitivePtr make(const char* what, const std::vector<int>& args, const F& describe,
                  const Primitive::Fixed& fixed = {}) {
  stay_in_this_thread();
  try {
    const auto d = describe();
    Primitive::Ports ports;
    for (const int arg : args) ports.emplace_back(arg, d.query_md(dnnl::query::exec_arg_md, arg));
    return std::make_shared<Primitive>(P(d), std::move(ports), fixed,
                                       d.scratchpad_desc().get_size(), d.impl_info_str());
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    unsupported("oneDNN has no ", what, " for it: ", e.what());
  }
}

}  // namespace ndtrain::onednn
