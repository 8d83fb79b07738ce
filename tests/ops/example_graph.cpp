#include "tests/ops/example_graph.h"

#include <cmath>
#include <sstream>

#include "framework/core/rng.h"

namespace ndtrain {
namespace {

bool is_unsigned(DType t) {
  return t == DType::kU8 || t == DType::kU16 || t == DType::kU32 || t == DType::kU64;
}

// f32 is rounded here although rounded() keeps doubles: kernels must see the same number.
double representable(double x, DType t) {
  return t == DType::kF32 ? static_cast<double>(static_cast<float>(x)) : rounded(x, t);
}

double one_value(const ExampleInput& spec, double u, double sign) {
  const DType t = spec.type.dtype;
  if (t == DType::kBool) return u < 0.5 ? 0 : 1;
  if (spec.low < spec.high) {
    if (is_float(t)) return spec.low + u * (spec.high - spec.low);
    return std::floor(spec.low + u * (spec.high - spec.low + 1));
  }
  const double magnitude = is_float(t) ? 0.1 + 0.9 * u : std::floor(1 + 9 * u);
  return is_unsigned(t) || sign < 0.5 ? magnitude : -magnitude;
}

template <typename T>
void print_list(std::ostream& os, const std::vector<T>& list) {
  os << '[';
  for (size_t i = 0; i < list.size(); ++i) os << (i ? "," : "") << list[i];
  os << ']';
}

struct AttrPrinter {
  std::ostream& os;
  void operator()(int64_t v) const { os << v; }
  void operator()(double v) const { os << v; }
  void operator()(const std::string& v) const { os << '"' << v << '"'; }
  void operator()(const Ints& v) const { print_list(os, v); }
  void operator()(const Floats& v) const { print_list(os, v); }
  void operator()(const Tensor& v) const { os << v.type(); }
};

}  // namespace

std::vector<double> example_values(const ExampleInput& spec, std::string_view purpose) {
  const DType t = spec.type.dtype;
  if (t == DType::kNone) return {};
  const int64_t n = spec.type.shape.count();
  std::vector<double> values(static_cast<size_t>(n));
  if (!spec.values.empty()) {
    if (static_cast<int64_t>(spec.values.size()) != n) {
      throw Error(purpose, ": ", spec.values.size(), " values given for ", spec.type);
    }
    values = spec.values;
  } else if (spec.distinct) {
    const std::vector<int64_t> order = permutation(n, Rng(1, purpose));
    for (int64_t i = 0; i < n; ++i) {
      values[i] = 2.0 * (static_cast<double>(order[i]) + 0.5) / static_cast<double>(n) - 1;
    }
  } else {
    const Rng size(1, purpose), sign(2, purpose);
    for (int64_t i = 0; i < n; ++i) values[i] = one_value(spec, size.uniform(i), sign.uniform(i));
  }
  for (double& v : values) v = representable(v, t);
  return values;
}

ExampleGraph build_example(const OpDef& def, const Example& example) {
  ExampleGraph e;
  for (size_t i = 0; i < example.inputs.size(); ++i) {
    const ExampleInput& spec = example.inputs[i];
    const std::string name = std::string(def.name) + "_x" + std::to_string(i);
    e.values.push_back(example_values(spec, name));
    if (spec.type.dtype == DType::kNone) {
      e.inputs.push_back(kNone);
    } else if (spec.known) {
      e.inputs.push_back(e.graph.add_constant(name, Tensor::from_doubles(spec.type, e.values[i])));
    } else {
      e.inputs.push_back(e.graph.add_input(name, spec.type));
    }
  }
  e.outputs = e.graph.add(std::string(def.name), e.inputs, example.attrs, example.outputs);
  for (const ValueId y : e.outputs) e.graph.mark_output(y);
  return e;
}

std::string describe(const OpDef& def, size_t example) {
  std::ostringstream os;
  os << def.name << " example " << example << ":";
  const char* separator = " ";
  for (const ExampleInput& in : def.examples.at(example).inputs) {
    os << separator;
    separator = ", ";
    if (in.type.dtype == DType::kNone) {
      os << "absent";
    } else {
      os << in.type;
    }
    if (in.known) os << " known";
    if (!in.values.empty() && in.values.size() <= 16) {
      os << ' ';
      print_list(os, in.values);
    }
  }
  separator = "; ";
  for (const auto& [name, value] : def.examples.at(example).attrs) {
    os << separator << name << " = ";
    separator = ", ";
    std::visit(AttrPrinter{os}, value);
  }
  return os.str();
}

std::vector<ExampleCase> example_cases(bool (*wanted)(const OpDef&, const Example&)) {
  std::vector<ExampleCase> cases;
  for (const OpDef& def : all_ops()) {
    for (size_t k = 0; k < def.examples.size(); ++k) {
      if (wanted(def, def.examples[k])) cases.push_back({&def, k});
    }
  }
  return cases;
}

std::string name_of(const ExampleCase& c) {
  return std::string(c.def->name) + "_" + std::to_string(c.index);
}

void PrintTo(const ExampleCase& c, std::ostream* os) { *os << describe(*c.def, c.index); }

}  // namespace ndtrain
