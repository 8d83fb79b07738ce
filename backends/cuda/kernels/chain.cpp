// FusedElementwise: its steps are read from text, and a step's result gets a slot that nothing
// reads any more. The grammar is framework/graph/elementwise_steps.h's.
#include "backends/cuda/kernels/chain.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

Function function_named(const std::string& name) {
  static const std::map<std::string_view, Function> table = {
#define HOT_NUMBER(name, expression) {#name, Function::k##name},
#define HOT_FLOAT(name, expression) {#name, Function::k##name},
#define NUMBER(name, expression)
#define FLOAT(name, expression)
#include "backends/cuda/kernels/functions.inc"
#undef FLOAT
#undef NUMBER
#undef HOT_FLOAT
#undef HOT_NUMBER
  };
  const auto found = table.find(name);
  if (found == table.end()) unsupported("no step ", name);
  return found->second;
}

// A step as it is written.
struct Read {
  std::string op;
  std::vector<std::string> operands;
  std::map<std::string, std::string> attrs;
};

std::vector<Read> read_steps(std::string_view text) {
  std::vector<Read> steps;
  std::istringstream parts{std::string(text)};
  for (std::string part; std::getline(parts, part, ';');) {
    std::istringstream words(part);
    Read& step = steps.emplace_back();
    words >> step.op;
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) {
        step.operands.push_back(word);
      } else {
        step.attrs[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
    if (step.operands.empty() || step.operands.size() > kMostStepOperands) {
      invalid("a step of ", step.operands.size(), " operands: ", part);
    }
  }
  return steps;
}

float number_of(const std::string& word) {
  char* end = nullptr;
  const double x = std::strtod(word.c_str(), &end);
  if (end == word.c_str() || *end) invalid("'", word, "' is no number");
  return static_cast<float>(x);
}

// The last step that reads the result of each; the result of all is read at the end.
std::vector<size_t> last_reads(const std::vector<Read>& steps) {
  std::vector<size_t> last(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    last[i] = i;
    for (const std::string& word : steps[i].operands) {
      if (word[0] != 'y') continue;
      const auto at = static_cast<size_t>(number_of(word.substr(1)));
      if (at >= i) invalid("step ", i, " reads ", word);
      last[at] = i;
    }
  }
  return last;
}

class Slots {
 public:
  explicit Slots(const std::vector<Read>& steps) : last_(last_reads(steps)) {}

  // What step `at` may write to: its own operands are read before.
  uint8_t take(size_t at) {
    for (uint8_t slot = 0; slot < kChainTemporaries; ++slot) {
      if (until_[slot] > at) continue;
      until_[slot] = std::max(last_[at], at + 1);
      of_.push_back(static_cast<uint8_t>(kMostInputs + slot));
      return of_.back();
    }
    unsupported("more than ", kChainTemporaries, " results at a time");
  }
  uint8_t of(size_t step) const { return of_.at(step); }

 private:
  std::vector<size_t> last_;
  size_t until_[kChainTemporaries] = {};  // what lies there is read last by this step
  std::vector<uint8_t> of_;
};

Chain::Step step_of(const Read& read, int inputs, const Slots& slots) {
  Chain::Step step;
  const auto attr = [&](const char* name) {
    const auto found = read.attrs.find(name);
    return found == read.attrs.end() ? std::string() : found->second;
  };
  step.function = function_named(read.op + (attr("approximate") == "tanh" ? "Tanh" : ""));
  if (!attr("alpha").empty()) step.a = number_of(attr("alpha"));
  if (!attr("beta").empty()) step.b = number_of(attr("beta"));
  std::fill_n(step.from, kMostStepOperands, static_cast<uint8_t>(kChainSlots));
  for (size_t i = 0; i < read.operands.size(); ++i) {
    const std::string& word = read.operands[i];
    if (word[0] == 'x') {
      const float at = number_of(word.substr(1));
      if (at < 0 || at >= static_cast<float>(inputs)) invalid("there is no ", word);
      step.from[i] = static_cast<uint8_t>(at);
    } else if (word[0] == 'y') {
      step.from[i] = slots.of(static_cast<size_t>(number_of(word.substr(1))));
    } else {
      step.number[i] = number_of(word);
    }
  }
  return step;
}

Chain chain_of(const Node& node) {
  Chain chain;
  chain.dtype = node.out().dtype;
  if (class_of(chain.dtype) != Class::kFloat) {
    unsupported("it is not computed in ", name_of(chain.dtype));
  }
  for (int i = 0; i < node.inputs(); ++i) {
    if (node.in(i).dtype != chain.dtype) unsupported("mixed dtypes");
  }
  chain.walk = walk(node.out(), inputs_of(node, 0, node.inputs()));
  chain.inputs = node.inputs();
  const std::vector<Read> steps = read_steps(node.s("steps"));
  if (steps.size() > kMostSteps) unsupported(steps.size(), " steps, at most ", kMostSteps);
  chain.steps = static_cast<int>(steps.size());
  Slots slots(steps);
  for (size_t i = 0; i < steps.size(); ++i) {
    chain.step[i] = step_of(steps[i], chain.inputs, slots);
    chain.step[i].to = slots.take(i);
  }
  return chain;
}

}  // namespace

void prefer_chain(const ndt_device& device, const Node& node, ndt_tensor_type* in,
                  ndt_tensor_type* out) {
  chain_of(node);
  follow_images(device, node, in, out);
}

std::unique_ptr<Kernel> prepare_chain(ndt_device&, const Node& node) {
  const Chain chain = chain_of(node);
  auto k = kernel([chain](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    chain.run(in, out[0], stream.stream);
  });
  for (int i = 0; i < chain.inputs; ++i) {
    if (chain.walk.whole(i)) k->in_place_inputs |= uint64_t{1} << i;
  }
  return k;
}

}  // namespace ndtrain::cuda
