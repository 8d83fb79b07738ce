// Einsum as products of matrices: operands are taken in, two at a time, as Transposes, Reshapes and
// a MatMul. "bhid,bhjd->bhij" is one MatMul; of a letter that an operand has twice the diagonal is
// taken, and letters that nobody else wants are summed first.
#include <algorithm>
#include <cctype>

#include "framework/onnx/adapt.h"

namespace ndtrain {
namespace {

bool has(const std::string& labels, char c) { return labels.find(c) != std::string::npos; }

std::string those(const std::string& labels, const auto& wanted) {
  std::string kept;
  for (const char c : labels) {
    if (wanted(c) && !has(kept, c)) kept += c;
  }
  return kept;
}

// Where the dims of `to` are in `from`.
Ints permutation(const std::string& from, const std::string& to) {
  Ints perm;
  for (const char c : to) perm.push_back(static_cast<int64_t>(from.find(c)));
  return perm;
}

// A value and a label for each of its dims: a letter, or a digit for a dim of the ellipsis.
struct Operand {
  std::string value, labels;
};

class Equation {
 public:
  Equation(Adaptation& a, std::string text) : a_(a), text_(std::move(text)) {
    std::string plain = text_;
    std::erase(plain, ' ');
    const size_t arrow = plain.find("->");
    std::string left = plain.substr(0, arrow) + ',';
    for (size_t end; (end = left.find(',')) != std::string::npos; left.erase(0, end + 1)) {
      const size_t i = operands_.size();
      if (!a_.has_input(i)) fail("names more operands than the node has");
      operands_.push_back({a_.input(i), labels_of(left.substr(0, end), a_.input(i))});
    }
    if (operands_.size() != a_.node.inputs.size()) fail("names fewer operands than the node has");
    output_ = arrow == std::string::npos ? implicit_output() : expanded(plain.substr(arrow + 2));
    check_output();
  }

  void lower() {
    Operand y = ready(0);
    for (size_t i = 1; i < operands_.size(); ++i) y = product(y, ready(i), i);
    a_.become("Transpose", {y.value}, {{"perm", permutation(y.labels, output_)}});
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error("equation '", text_, "' ", why);
  }

  std::string labels_of(const std::string& term, const std::string& value) {
    check_letters(term);
    const int rank = a_.type(value).shape.rank();
    const size_t dots = term.find("...");
    const auto letters =
        static_cast<int>(dots == std::string::npos ? term.size() : term.size() - 3);
    const int hidden = dots == std::string::npos ? 0 : rank - letters;
    if (letters + hidden != rank || hidden < 0 || hidden > 9) {
      fail("does not fit operand " + std::to_string(operands_.size()) + " of rank " +
           std::to_string(rank));
    }
    hidden_ = std::max(hidden_, hidden);
    std::string labels = dots == std::string::npos
                             ? term
                             : term.substr(0, dots) + last(hidden) + term.substr(dots + 3);
    return labels;
  }

  // The last n dims of the ellipsis: "9" is the innermost one.
  static std::string last(int n) {
    return std::string("0123456789").substr(10 - static_cast<size_t>(n));
  }

  // Without the ellipsis, whose dims have digits.
  void check_letters(std::string term) const {
    if (const size_t dots = term.find("..."); dots != std::string::npos) term.erase(dots, 3);
    for (const char c : term) {
      if (std::isalpha(static_cast<unsigned char>(c)) == 0)
        fail("has a character that is no letter");
    }
  }

  std::string expanded(std::string term) const {
    check_letters(term);
    if (const size_t dots = term.find("..."); dots != std::string::npos) {
      term.replace(dots, 3, last(hidden_));
    }
    return term;
  }

  // The ellipsis, then the letters that come once, in their order.
  std::string implicit_output() const {
    std::string all, once;
    for (const Operand& o : operands_) all += o.labels;
    for (const char c : all) {
      const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
      if (letter && std::ranges::count(all, c) == 1) once += c;
    }
    std::ranges::sort(once);
    return last(hidden_) + once;
  }

  void check_output() const {
    for (const char c : output_) {
      const bool there =
          std::ranges::any_of(operands_, [&](const Operand& o) { return has(o.labels, c); });
      if (!there || std::ranges::count(output_, c) > 1) {
        fail("has an output that names '" + std::string(1, c) + "' twice or no operand's dim");
      }
    }
  }

  // Whether the output or an operand behind `i` has it.
  bool wanted_behind(size_t i, char c) const {
    bool wanted = has(output_, c);
    for (size_t k = i + 1; k < operands_.size(); ++k) wanted |= has(operands_[k].labels, c);
    return wanted;
  }

  std::string sum(const std::string& value, const Ints& axes) {
    return a_.before("ReduceSum", {value, a_.constant(axes)}, {{"keepdims", int64_t{0}}});
  }

  // Operand i with each label once, and none that is nobody else's.
  Operand ready(size_t i) {
    Operand o = operands_[i];
    const TensorType type = a_.type(o.value);
    while (true) {
      size_t second = 1;
      while (second < o.labels.size() && o.labels.find(o.labels[second]) == second) ++second;
      if (second >= o.labels.size()) break;
      take_diagonal(o, o.labels.find(o.labels[second]), second, type.dtype);
    }
    Ints gone;
    std::string kept;
    for (size_t d = 0; d < o.labels.size(); ++d) {
      bool others = wanted_behind(i, o.labels[d]);
      for (size_t k = 0; k < i; ++k) others |= has(operands_[k].labels, o.labels[d]);
      if (!others) gone.push_back(static_cast<int64_t>(d));
      if (others) kept += o.labels[d];
    }
    if (!gone.empty()) o = {sum(o.value, gone), kept};
    return o;
  }

  // Either dim may be the batch: the mask is made once shapes are known.
  void take_diagonal(Operand& o, size_t first, size_t second, DType dtype) {
    const Shape shape = a_.type(o.value).shape;
    if (shape[static_cast<int>(first)] != shape[static_cast<int>(second)]) {
      fail("takes the diagonal of dims that differ");
    }
    const Attrs axis{{"axis", int64_t{0}}};
    const auto extent = [&](size_t dim) {
      return a_.before("Gather",
                       {a_.before("Shape", {o.value}), a_.constant({static_cast<int64_t>(dim)})},
                       axis);
    };
    std::vector<std::string> extents;
    for (size_t d = 0; d < o.labels.size(); ++d) {
      extents.push_back(d == first || d == second ? extent(d) : a_.constant({1}));
    }
    const double zero = 0;
    const std::string square =
        a_.before("ConstantOfShape", {a_.before("Concat", {extent(first), extent(second)}, axis)},
                  {{"value", Tensor::from_doubles({dtype, Shape{1}}, std::span(&zero, 1))}});
    const std::string mask = reshaped(a_.before("EyeLike", {square}), extents);
    o.value = sum(a_.before("Mul", {o.value, mask}), {static_cast<int64_t>(second)});
    o.labels.erase(second, 1);
  }

  std::string laid(const Operand& o, const std::string& labels) {
    if (o.labels == labels) return o.value;
    return a_.before("Transpose", {o.value}, {{"perm", permutation(o.labels, labels)}});
  }

  std::string dims(const Operand& o, const std::string& labels) {
    return a_.before("Gather",
                     {a_.before("Shape", {o.value}), a_.constant(permutation(o.labels, labels))},
                     {{"axis", int64_t{0}}});
  }

  std::string count(const Operand& o, const std::string& labels) {
    if (labels.empty()) return a_.constant({1});
    if (labels.size() == 1) return dims(o, labels);
    return a_.before("ReduceProd", {dims(o, labels)}, {{"keepdims", int64_t{1}}});
  }

  std::string reshaped(const std::string& value, const std::vector<std::string>& parts) {
    const std::string shape = a_.before("Concat", parts, {{"axis", int64_t{0}}});
    return a_.before("Reshape", {value, shape}, {{"allowzero", int64_t{1}}});
  }

  // [batch, one, two] from o, whose dims `one` and `two` become one each.
  std::string matrices(const Operand& o, const std::string& batch, const std::string& one,
                       const std::string& two) {
    std::string x = laid(o, batch + one + two);
    if (one.size() == 1 && two.size() == 1) return x;
    std::vector<std::string> parts;
    if (!batch.empty()) parts.push_back(dims(o, batch));
    parts.insert(parts.end(), {count(o, one), count(o, two)});
    return reshaped(x, parts);
  }

  Operand product(const Operand& x, const Operand& y, size_t i) {
    const auto kept = [&](char c) { return wanted_behind(i, c); };
    const auto both = [&](char c) { return has(x.labels, c) && has(y.labels, c); };
    const std::string batch = those(x.labels, [&](char c) { return both(c) && kept(c); });
    const std::string summed = those(x.labels, [&](char c) { return both(c) && !kept(c); });
    const std::string rows = those(x.labels, [&](char c) { return !has(y.labels, c); });
    const std::string columns = those(y.labels, [&](char c) { return !has(x.labels, c); });
    const std::string z = a_.before(
        "MatMul", {matrices(x, batch, rows, summed), matrices(y, batch, summed, columns)});
    Operand made{z, batch + rows + columns};
    if (rows.size() == 1 && columns.size() == 1) return made;
    std::vector<std::string> parts;
    if (!batch.empty()) parts.push_back(broadcast_dims(x, y, batch));
    if (!rows.empty()) parts.push_back(dims(x, rows));
    if (!columns.empty()) parts.push_back(dims(y, columns));
    if (parts.empty()) parts.push_back(a_.constant(Ints{}));
    made.value = reshaped(z, parts);
    return made;
  }

  std::string broadcast_dims(const Operand& x, const Operand& y, const std::string& batch) {
    return a_.before("Max", {dims(x, batch), dims(y, batch)});
  }

  Adaptation& a_;
  const std::string text_;
  std::vector<Operand> operands_;
  std::string output_;
  int hidden_ = 0;  // dims of the longest ellipsis
};

}  // namespace

void adapt_einsum(Adaptation& a) {
  const std::string text = a.take<std::string>("equation").value_or("");
  Equation(a, text).lower();
}

}  // namespace ndtrain
