// An op's Example made concrete: a graph of one node and numbers for its inputs. The gradient
// check, the kernel checks and the benchmarks all run on these, so that they speak of the same
// cases.
#pragma once

#include <string>
#include <vector>

#include "framework/graph/op.h"

namespace ndtrain {

struct ExampleGraph {
  Graph graph;                  // one node; its outputs are marked
  std::vector<ValueId> inputs;  // one per ExampleInput; kNone where absent
  std::vector<ValueId> outputs;
  std::vector<std::vector<double>> values;  // one per ExampleInput: numbers its dtype holds exactly
};

// Known inputs become constants, the others graph inputs. Deterministic: the numbers depend on the
// op's name, the position of the input and its spec alone.
ExampleGraph build_example(const OpDef& def, const Example& example);

// Numbers as `spec` asks for, exactly representable in its dtype.
std::vector<double> example_values(const ExampleInput& spec, std::string_view purpose);

// "Conv example 3: f32[1,2,5,5], f32[4,2,3,3], absent; strides = [2,2]": enough to find and repeat
// it.
std::string describe(const OpDef& def, size_t example);

// One (op, example) pair per example of every op that `wanted` accepts, as a test parameter.
struct ExampleCase {
  const OpDef* def;
  size_t index;

  const Example& example() const { return def->examples[index]; }
};
std::vector<ExampleCase> example_cases(bool (*wanted)(const OpDef&, const Example&));
std::string name_of(const ExampleCase& c);  // "Conv_3", for test names
void PrintTo(const ExampleCase& c, std::ostream* os);

}  // namespace ndtrain
