// Subgraphs by their form: Pattern("Mul", {"x", Pattern("Sigmoid", {"x"})}) is x * sigmoid(x) in
// either order of the factors.
#pragma once

#include <map>

#include "framework/passes/rewrite.h"

namespace ndtrain {

struct Pattern {
  using Is = std::function<bool(const Matcher&, int node)>;

  Pattern(const char* value) : name(value) {}     // NOLINT: the same name is the same value
  Pattern(double constant) : number(constant) {}  // NOLINT: to six digits
  // A node whose first inputs are these, in either order where the op has no order. Its result may
  // have a name.
  Pattern(Is of, std::vector<Pattern> in, std::string result = "")
      : is(std::move(of)), inputs(std::move(in)), name(std::move(result)) {}
  Pattern(std::string op, std::vector<Pattern> in, std::string result = "")
      : Pattern([op](const Matcher& m, int i) { return m.is(i, op); }, std::move(in),
                std::move(result)) {}

  Is is;                        // of a node; null: a value
  std::vector<Pattern> inputs;  // without `is`: one of them
  std::string name;
  std::optional<double> number;
};

// The first that fits.
inline Pattern either(std::vector<Pattern> patterns) {
  return {Pattern::Is(), std::move(patterns)};
}

// What stands for each name, and the nodes of the pattern, the last of them first.
struct Bound {
  std::map<std::string, ValueId, std::less<>> values;
  std::vector<int> nodes;

  bool has(std::string_view name) const { return values.find(name) != values.end(); }
  ValueId operator[](std::string_view name) const { return values.find(name)->second; }
};

// What `make` makes of the places where the pattern holds and nothing but its nodes reads what lies
// between them, from the last place of the graph back: of rows that begin alike the longest comes
// first. Where `make` gives nothing, another way to read the place is tried.
std::vector<Match> find_pattern(const Matcher& m, const Pattern& pattern,
                                const std::function<std::optional<Match>(const Bound&)>& make);

}  // namespace ndtrain
