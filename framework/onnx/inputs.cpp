#include "framework/onnx/inputs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace ndtrain {
namespace {

// The extents of a model's inputs, symbolic ones by what is known of them.
class Extents {
 public:
  Extents(const OnnxModel& m, const ImportOptions& options, Problems& problems)
      : m_(m), options_(options), problems_(problems) {}

  std::vector<int64_t> of(const OnnxValue& v) {
    std::vector<int64_t> dims;
    for (size_t axis = 0; axis < v.dims.size(); ++axis) dims.push_back(named(v, axis));
    const std::set<size_t> image = image_axes(v, dims);
    for (size_t axis = 1; axis < dims.size(); ++axis) {
      if (dims[axis] >= 0) continue;
      if (options_.image_side && image.contains(axis)) {
        dims[axis] = options_.image_side(m_.metadata);
        continue;
      }
      const std::string key = v.names[axis].empty() ? place(v, axis) : v.names[axis];
      problems_.add("input '", v.name, "': dimension ", axis, " is symbolic ('", v.names[axis],
                    "'); only the first may be: give its extent as ", place(v, axis),
                    ", with ndtrain model import --dim ", key, "=N");
    }
    return dims;
  }

  void refuse_unused() {
    for (const auto& [key, extent] : options_.dims) {
      if (used_.contains(key)) continue;
      std::string known;
      for (const std::string& name : symbols_) known += (known.empty() ? "" : ", ") + name;
      problems_.add("no input has a symbolic dimension '", key, "'",
                    known.empty() ? "; all are numbers" : "; there are " + known);
    }
  }

 private:
  static std::string place(const OnnxValue& v, size_t axis) {
    return v.name + "[" + std::to_string(axis) + "]";
  }

  // kBatch where it is symbolic and not named.
  int64_t named(const OnnxValue& v, size_t axis) {
    if (v.dims[axis] >= 0) return v.dims[axis];
    symbols_.insert(v.names[axis].empty() ? place(v, axis) : v.names[axis]);
    for (const std::string& key : {v.names[axis], place(v, axis)}) {
      const auto it = options_.dims.find(key);
      if (it == options_.dims.end() || key.empty()) continue;
      used_.insert(key);
      if (it->second < 0) problems_.add("dimension ", key, " cannot be ", it->second);
      return it->second;
    }
    return kBatch;
  }

  // Height and width of the images that the model takes, if it takes images alone.
  std::set<size_t> image_axes(const OnnxValue& v, const std::vector<int64_t>& dims) const {
    const auto fed = [&](const OnnxValue& in) { return !m_.initialisers.contains(in.name); };
    if (std::ranges::count_if(m_.inputs, fed) != 1 || dims.size() != 4) return {};
    if (v.dtype == DType::kNone) return {};
    if (dims[1] == 3) return {2, 3};
    return dims[3] == 3 ? std::set<size_t>{1, 2} : std::set<size_t>{};
  }

  const OnnxModel& m_;
  const ImportOptions& options_;
  Problems& problems_;
  std::set<std::string> symbols_, used_;
};

// One number for all elements, or one for each.
Tensor constant_of(const TensorType& type, const std::vector<double>& numbers) {
  const auto count = static_cast<size_t>(type.shape.count());
  if (numbers.size() != 1 && numbers.size() != count) {
    throw Error("is ", type, " and takes 1 number or ", count, ", not ", numbers.size());
  }
  std::vector<double> all = numbers;
  all.resize(count, numbers.empty() ? 0 : numbers[0]);
  for (const double x : all) {
    const bool fits = is_float(type.dtype) || (std::isfinite(x) && rounded(x, type.dtype) == x);
    if (!fits) throw Error("is ", type, " and cannot be ", x);
  }
  return Tensor::from_doubles(type, all);
}

class Inputs {
 public:
  Inputs(OnnxModel& from, const ImportOptions& options, Model& to, Problems& problems)
      : from_(from),
        options_(options),
        to_(to),
        problems_(problems),
        extents_(from, options, problems) {}

  void run() {
    for (const auto& [name, numbers] : options_.inputs) declare(name, numbers);
    for (const OnnxValue& v : from_.inputs) {
      if (!from_.initialisers.contains(v.name)) add(v);  // else a default, which we make final
    }
    extents_.refuse_unused();
  }

 private:
  void declare(const std::string& name, const std::vector<double>& numbers) {
    const auto it = std::ranges::find(from_.inputs, name, &OnnxValue::name);
    if (it == from_.inputs.end()) {
      std::string there;
      for (const OnnxValue& v : from_.inputs) there += (there.empty() ? "" : ", ") + v.name;
      problems_.add("the model has no input '", name, "'; there are ", there);
      return;
    }
    const OnnxValue v = *it;
    const std::optional<ModelInput> in = declared(v);
    from_.inputs.erase(it);
    from_.initialisers.erase(name);
    if (!in) return;
    for (size_t axis = 0; axis < in->dims.size(); ++axis) {
      if (in->dims[axis] >= 0) continue;
      problems_.add("input '", name, "': dimension ", axis,
                    " is the batch, and a constant has none: give its extent by --dim ", name, "[",
                    axis, "]=N");
      return;
    }
    try {
      add_constant(name, constant_of({in->dtype, Shape(in->dims)}, numbers));
    } catch (const Error& e) {
      problems_.add("input '", name, "' ", e.what());
    }
  }

  // Float initialisers are weights, and this is none.
  void add_constant(const std::string& name, Tensor value) {
    OnnxNode n;
    n.op = "Constant";
    n.opset = kMaxOpset;
    n.outputs = {name};
    n.attrs.set("value", std::move(value));
    from_.nodes.insert(from_.nodes.begin(), std::move(n));
  }

  std::optional<ModelInput> declared(const OnnxValue& v) {
    if (v.dtype == DType::kNone) {
      problems_.add("input '", v.name, "' is ", v.kind, ", which is not supported");
      return std::nullopt;
    }
    if (!v.has_shape) {
      problems_.add("input '", v.name, "' has no shape");
      return std::nullopt;
    }
    return ModelInput{v.name, v.dtype, extents_.of(v)};
  }

  void add(const OnnxValue& v) {
    std::optional<ModelInput> in = declared(v);
    if (!in) return;
    std::vector<int64_t> least;
    for (const int64_t d : in->dims) least.push_back(std::max<int64_t>(d, 0));
    try {
      Shape checked(least);
    } catch (const Error& e) {
      problems_.add("input '", v.name, "': ", e.what());
    }
    to_.inputs.push_back(std::move(*in));
  }

  OnnxModel& from_;
  const ImportOptions& options_;
  Model& to_;
  Problems& problems_;
  Extents extents_;
};

}  // namespace

void add_inputs(OnnxModel& from, const ImportOptions& options, Model& to, Problems& problems) {
  Inputs(from, options, to, problems).run();
}

}  // namespace ndtrain
