// Einsum of two inputs that is one product of matrices for each of their common indices, as
// Transposes and a MatMul: "bhid,bhjd->bhij".
#include <algorithm>
#include <cctype>
#include <optional>

#include "framework/onnx/adapt.h"

namespace ndtrain {
namespace {

struct Equation {
  std::string a, b, y;  // a letter for each dim

  // Common to all three, in the order of y.
  std::string batch() const { return chosen(y, true, true, true); }
  std::string summed() const { return chosen(a, true, true, false); }
  std::string rows() const { return chosen(y, true, false, true); }
  std::string columns() const { return chosen(y, false, true, true); }

 private:
  static bool has(const std::string& labels, char c) { return labels.find(c) != std::string::npos; }
  std::string chosen(const std::string& from, bool in_a, bool in_b, bool in_y) const {
    std::string labels;
    for (const char c : from) {
      if (has(a, c) == in_a && has(b, c) == in_b && has(y, c) == in_y) labels += c;
    }
    return labels;
  }
};

bool is_labels(std::string labels) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  if (!std::ranges::all_of(labels, letter)) return false;
  std::ranges::sort(labels);
  return std::ranges::adjacent_find(labels) == labels.end();
}

std::optional<Equation> equation_of(std::string text) {
  std::erase(text, ' ');
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return {};
  Equation e{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1),
             text.substr(arrow + 2)};
  if (!is_labels(e.a) || !is_labels(e.b) || !is_labels(e.y)) return {};
  const size_t batch = e.batch().size();
  const bool product = e.summed().size() == 1 && e.rows().size() == 1 && e.columns().size() == 1;
  const bool nothing_else = e.a.size() == batch + 2 && e.b.size() == batch + 2;
  return product && nothing_else && e.y.size() == batch + 2 ? std::optional(e) : std::nullopt;
}

// Where the dims of `to` are in `from`.
Ints permutation(const std::string& from, const std::string& to) {
  Ints perm;
  for (const char c : to) perm.push_back(static_cast<int64_t>(from.find(c)));
  return perm;
}

}  // namespace

void adapt_einsum(Adaptation& a) {
  const std::string text = a.take<std::string>("equation").value_or("");
  const std::optional<Equation> e = equation_of(text);
  if (!e || !a.has_input(1)) {
    return a.refuse("equation '" + text +
                    "' is not supported: only one product of matrices for each common index is, "
                    "like 'bij,bjk->bik'");
  }
  const auto transposed = [&](size_t i, const std::string& from, const std::string& to) {
    if (from == to) return;
    a.set_input(i, a.before("Transpose", {a.input(i)}, {{"perm", permutation(from, to)}}));
  };
  const std::string made = e->batch() + e->rows() + e->columns();
  transposed(0, e->a, e->batch() + e->rows() + e->summed());
  transposed(1, e->b, e->batch() + e->summed() + e->columns());
  if (made != e->y) a.after(0, "Transpose", {}, {{"perm", permutation(made, e->y)}});
  a.node.op = "MatMul";
}

}  // namespace ndtrain
