// What kernels are tested on: the examples of the operators, and larger cases cut from a stream of
// images; with how far a result may be from the double reference.
#pragma once

#include <string>
#include <vector>

#include "tests/ops/example_graph.h"
#include "tests/runtime/plugin_runner.h"

namespace ndtrain {

NodeRun node_of(const ExampleGraph& e);
// All inputs become constants but the first, those of the output's shape, of Concat and of Mul.
void freeze(NodeRun& node);

// A larger case than an example, in which image `i` of a batch must have the bits it has alone.
struct Batched {
  const char* name;
  const char* op;
  // Of one image: input 0's first dim is multiplied by the batch; the others constant.
  std::vector<Shape> inputs;
  Attrs attrs = {};
  std::vector<size_t> per_image = {};  // further inputs of which a batch has more
};

std::vector<Batched> batched_cases();

// The case for images [first, first + batch) of a stream of images, in a float dtype.
NodeRun batch_of(const Batched& c, int64_t first, int64_t batch, DType t = DType::kF32);

// The reference of a run whose inputs are numbers that its dtypes hold.
std::vector<std::vector<double>> reference_of(const NodeRun& run);

// `allowed` is relative to the largest value; 0: what rounding explains. `units`: how far integers
// may be off.
void compare(const OpDef& def, const std::string& what, const NodeRun& run, double allowed,
             const std::vector<std::vector<double>>& want, const std::vector<Bytes>& got,
             int units = 0);

// Bytes of a dtype for images [first, first + images) of a stream, `each` of an image, which has a
// seed of its own: alone and in a batch it is the same.
std::vector<double> byte_stream(DType t, int64_t first, int64_t images, int64_t each,
                                unsigned seed);

}  // namespace ndtrain
