// A value as the elements of another in another order: what Reshapes and Transposes in a row make.
#pragma once

#include <optional>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

// The source's elements, row-major, have an index for each of `factors`; the value has those
// indices in another order, some of them to a dim. A factor of 1 is one too: a batch of one image
// has the same form as others.
struct Moved {
  ValueId source;
  std::vector<int64_t> factors;  // of the source, outermost first
  std::vector<size_t> order;     // numbers of factors, as the value has them
  std::vector<size_t> dims;      // how many of these each of its dims has; 0: the dim is 1

  bool in_order() const;  // a Reshape is all that there is to it
  // Of dim `d`: where its factors begin in `order`.
  size_t begin(size_t d) const;
  Shape shape() const;  // of the value
};

Moved unmoved(ValueId source, const Shape& shape);
// Nothing where a dim of `shape` is no product of factors and parts of them.
std::optional<Moved> reshaped(Moved m, const Shape& shape);
Moved transposed(const Moved& m, const std::vector<int64_t>& perm);
// Without dim `d`, of which factor `f` is all: what a Split of the source by it leaves to each
// part.
Moved without(const Moved& m, size_t d, size_t f, ValueId part);

// A Reshape, a Transpose and a Reshape, none of them in vain.
ValueId add_moved(Graph& g, const Moved& m);

// A value whose rows (what lies in its last dim) stand in another order than the source has the
// factors of which they are numbered.
struct MovedRows {
  Moved sorted;  // the same rows in the source's order, a dim for each of these factors
  Moved back;    // of what is computed of each row: but for `source` and the last of `factors`
};
// Nothing where they stand in that order.
std::optional<MovedRows> moved_rows(const Moved& m);

}  // namespace ndtrain
