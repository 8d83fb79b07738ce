#include "framework/passes/moved.h"

#include <algorithm>
#include <numeric>

namespace ndtrain {
namespace {

// Factor `order[at]` of `m` becomes two, of which the outer is `outer`.
void divide(Moved& m, size_t at, int64_t outer) {
  const size_t f = m.order[at];
  const int64_t inner = m.factors[f] / outer;
  m.factors[f] = outer;
  m.factors.insert(m.factors.begin() + static_cast<std::ptrdiff_t>(f) + 1, inner);
  for (size_t& k : m.order) k += k > f;
  m.order.insert(m.order.begin() + static_cast<std::ptrdiff_t>(at) + 1, f + 1);
}

// How many of the factors from `at` on make a dim of `extent`.
std::optional<size_t> taken(Moved& m, size_t at, int64_t extent) {
  const size_t first = at;
  if (extent == 1) return at < m.order.size() && m.factors[m.order[at]] == 1 ? 1 : 0;
  while (extent > 1) {
    if (at == m.order.size()) return {};
    const int64_t f = m.factors[m.order[at]];
    if (extent % f == 0) {
      extent /= f;
    } else if (f % extent == 0) {
      divide(m, at, extent);
      extent = 1;
    } else {
      return {};
    }
    ++at;
  }
  return at - first;
}

Ints as_ints(const std::vector<size_t>& v) { return {v.begin(), v.end()}; }

ValueId add_reshape(Graph& g, ValueId v, const Shape& shape) {
  if (g.shape(v) == shape) return v;
  return g.add1("Reshape", {v, g.add_constant("", shape.dims())});
}

// Neighbours in one dim that are neighbours in the source too are one factor.
Moved merged(const Moved& m) {
  std::vector<bool> joins(m.factors.size());  // the factor before it
  size_t at = 0;
  for (const size_t n : m.dims) {
    for (size_t k = at + 1; k < at + n; ++k) joins[m.order[k]] = m.order[k] == m.order[k - 1] + 1;
    at += n;
  }
  Moved r{.source = m.source, .factors = {}, .order = {}, .dims = {}};
  std::vector<size_t> now;
  for (size_t f = 0; f < m.factors.size(); ++f) {
    if (joins[f]) {
      r.factors.back() *= m.factors[f];
    } else {
      r.factors.push_back(m.factors[f]);
    }
    now.push_back(r.factors.size() - 1);
  }
  at = 0;
  for (const size_t n : m.dims) {
    r.dims.push_back(0);
    for (size_t k = at; k < at + n; ++k) {
      if (joins[m.order[k]]) continue;
      r.order.push_back(now[m.order[k]]);
      ++r.dims.back();
    }
    at += n;
  }
  return r;
}

}  // namespace

bool Moved::in_order() const { return std::ranges::is_sorted(order); }

size_t Moved::begin(size_t d) const {
  return std::accumulate(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(d), size_t{0});
}

Shape Moved::shape() const {
  std::vector<int64_t> extents;
  size_t at = 0;
  for (const size_t n : dims) {
    extents.push_back(1);
    for (size_t k = 0; k < n; ++k) extents.back() *= factors[order[at++]];
  }
  return Shape(std::move(extents));
}

Moved unmoved(ValueId source, const Shape& shape) {
  Moved m{source, shape.dims(), {}, {}};
  m.dims.assign(m.factors.size(), 1);
  m.order.resize(m.factors.size());
  std::iota(m.order.begin(), m.order.end(), 0);
  return m;
}

std::optional<Moved> reshaped(Moved m, const Shape& shape) {
  m.dims.clear();
  size_t at = 0;
  for (const int64_t extent : shape.dims()) {
    const std::optional<size_t> n = taken(m, at, extent);
    if (!n) return {};
    m.dims.push_back(*n);
    at += *n;
  }
  if (m.dims.empty() && !m.order.empty()) return {};
  if (!m.dims.empty()) m.dims.back() += m.order.size() - at;  // of 1 each
  return m;
}

Moved transposed(const Moved& m, const std::vector<int64_t>& perm) {
  Moved r{m.source, m.factors, {}, {}};
  for (const int64_t p : perm) {
    const auto d = static_cast<size_t>(p);
    const auto first = m.order.begin() + static_cast<std::ptrdiff_t>(m.begin(d));
    r.order.insert(r.order.end(), first, first + static_cast<std::ptrdiff_t>(m.dims[d]));
    r.dims.push_back(m.dims[d]);
  }
  return r;
}

Moved without(const Moved& m, size_t d, size_t f, ValueId part) {
  Moved r = m;
  r.source = part;
  r.factors.erase(r.factors.begin() + static_cast<std::ptrdiff_t>(f));
  std::erase(r.order, f);
  for (size_t& k : r.order) k -= k > f;
  r.dims.erase(r.dims.begin() + static_cast<std::ptrdiff_t>(d));
  return r;
}

ValueId add_moved(Graph& g, const Moved& m) {
  const Moved plain = g.shape(m.source) == Shape(m.factors) ? m : merged(m);
  ValueId v = plain.source;
  if (!plain.in_order()) {
    v = add_reshape(g, v, Shape(plain.factors));
    v = g.add1("Transpose", {v}, {{"perm", as_ints(plain.order)}});
  }
  return add_reshape(g, v, m.shape());
}

std::optional<MovedRows> moved_rows(const Moved& m) {
  if (m.dims.size() < 2 || m.dims.back() == 0) return {};
  size_t rows = m.order.size() - m.dims.back();
  MovedRows r{m, {kNone, {}, {}, m.dims}};
  // A batch of one image may have been read as the first factor of the last dim.
  while (rows + 1 < m.order.size() && m.factors[m.order[rows]] == 1) {
    ++r.back.dims[r.back.dims.size() - 2];
    ++rows;
  }
  const auto end = static_cast<std::ptrdiff_t>(rows);
  if (std::is_sorted(m.order.begin(), m.order.begin() + end)) return {};
  std::sort(r.sorted.order.begin(), r.sorted.order.begin() + end);
  r.sorted.dims.assign(rows, 1);
  r.sorted.dims.push_back(m.order.size() - rows);
  for (size_t k = 0; k < rows; ++k) {
    const auto first = r.sorted.order.begin();
    r.back.factors.push_back(m.factors[r.sorted.order[k]]);
    r.back.order.push_back(
        static_cast<size_t>(std::lower_bound(first, first + end, m.order[k]) - first));
  }
  r.back.factors.push_back(0);
  r.back.order.push_back(rows);
  r.back.dims.back() = 1;
  return r;
}

}  // namespace ndtrain
