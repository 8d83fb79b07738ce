// Inception-v3 (Szegedy et al. 2016) without the auxiliary classifier, which takes part in training
// from scratch only.
#include "models/architectures.h"
#include "models/builder.h"

namespace ndtrain::models {
namespace {

using Value = Builder::Value;

class InceptionBuilder {
 public:
  explicit InceptionBuilder(const BuildOptions& o)
      : b_(o.seed, o.img_size, {.conv = truncated_normal(0.1), .linear = truncated_normal(0.1)}),
        classes_(o.classes) {}

  Model build() {
    const Pool pool{.kernel = 3, .stride = 2};
    Value x = conv("Conv2d_1a_3x3", b_.input(), {.out = 32, .kernel = 3, .stride = 2});
    x = conv("Conv2d_2a_3x3", x, {.out = 32, .kernel = 3});
    x = conv("Conv2d_2b_3x3", x, {.out = 64, .kernel = 3, .pad = 1});
    x = conv("Conv2d_3b_1x1", b_.max_pool(x, pool), {.out = 80});
    x = conv("Conv2d_4a_3x3", x, {.out = 192, .kernel = 3});
    x = a("Mixed_5b", b_.max_pool(x, pool), 32);
    x = a("Mixed_5c", x, 64);
    x = a("Mixed_5d", x, 64);
    x = shrink_a("Mixed_6a", x);
    x = b("Mixed_6b", x, 128);
    x = b("Mixed_6c", x, 160);
    x = b("Mixed_6d", x, 160);
    x = b("Mixed_6e", x, 192);
    x = shrink_b("Mixed_7a", x);
    x = c("Mixed_7b", x);
    x = c("Mixed_7c", x);
    x = b_.flatten(b_.dropout(b_.global_average_pool(x), 0.5));
    return b_.finish(b_.linear("fc", x, classes_));
  }

 private:
  Value conv(const std::string& name, const Value& x, const Conv& c) {
    return b_.relu(b_.batch_norm(name + ".bn", b_.conv(name + ".conv", x, c), 1e-3));
  }

  // A branch of convolutions in a row.
  Value chain(const std::string& block, Value x,
              const std::vector<std::pair<const char*, Conv>>& convs) {
    for (const auto& [name, c] : convs) x = conv(block + "." + name, x, c);
    return x;
  }

  Value pooled(const std::string& block, const Value& x, int64_t out) {
    const Value mean = b_.average_pool(x, {.kernel = 3, .pad = 1});
    return conv(block + ".branch_pool", mean, {.out = out});
  }

  Value joined(const std::string& block, const std::vector<Value>& branches) {
    return b_.named(b_.concat(branches), block);
  }

  Value a(const std::string& n, const Value& x, int64_t pool_features) {
    return joined(
        n,
        {chain(n, x, {{"branch1x1", {.out = 64}}}),
         chain(n, x,
               {{"branch5x5_1", {.out = 48}}, {"branch5x5_2", {.out = 64, .kernel = 5, .pad = 2}}}),
         chain(n, x,
               {{"branch3x3dbl_1", {.out = 64}},
                {"branch3x3dbl_2", {.out = 96, .kernel = 3, .pad = 1}},
                {"branch3x3dbl_3", {.out = 96, .kernel = 3, .pad = 1}}}),
         pooled(n, x, pool_features)});
  }

  Value shrink_a(const std::string& n, const Value& x) {
    return joined(n, {chain(n, x, {{"branch3x3", {.out = 384, .kernel = 3, .stride = 2}}}),
                      chain(n, x,
                            {{"branch3x3dbl_1", {.out = 64}},
                             {"branch3x3dbl_2", {.out = 96, .kernel = 3, .pad = 1}},
                             {"branch3x3dbl_3", {.out = 96, .kernel = 3, .stride = 2}}}),
                      b_.max_pool(x, {.kernel = 3, .stride = 2})});
  }

  Value b(const std::string& n, const Value& x, int64_t inner) {
    const auto row = [](int64_t out) { return Conv{.out = out, .kernel = {1, 7}, .pad = {0, 3}}; };
    const auto column = [](int64_t out) {
      return Conv{.out = out, .kernel = {7, 1}, .pad = {3, 0}};
    };
    return joined(n, {chain(n, x, {{"branch1x1", {.out = 192}}}),
                      chain(n, x,
                            {{"branch7x7_1", {.out = inner}},
                             {"branch7x7_2", row(inner)},
                             {"branch7x7_3", column(192)}}),
                      chain(n, x,
                            {{"branch7x7dbl_1", {.out = inner}},
                             {"branch7x7dbl_2", column(inner)},
                             {"branch7x7dbl_3", row(inner)},
                             {"branch7x7dbl_4", column(inner)},
                             {"branch7x7dbl_5", row(192)}}),
                      pooled(n, x, 192)});
  }

  Value shrink_b(const std::string& n, const Value& x) {
    return joined(n, {chain(n, x,
                            {{"branch3x3_1", {.out = 192}},
                             {"branch3x3_2", {.out = 320, .kernel = 3, .stride = 2}}}),
                      chain(n, x,
                            {{"branch7x7x3_1", {.out = 192}},
                             {"branch7x7x3_2", {.out = 192, .kernel = {1, 7}, .pad = {0, 3}}},
                             {"branch7x7x3_3", {.out = 192, .kernel = {7, 1}, .pad = {3, 0}}},
                             {"branch7x7x3_4", {.out = 192, .kernel = 3, .stride = 2}}}),
                      b_.max_pool(x, {.kernel = 3, .stride = 2})});
  }

  // A row and a column side by side.
  Value cross(const std::string& n, const std::string& first, const Value& x) {
    return b_.concat(
        {conv(n + "." + first + "a", x, {.out = 384, .kernel = {1, 3}, .pad = {0, 1}}),
         conv(n + "." + first + "b", x, {.out = 384, .kernel = {3, 1}, .pad = {1, 0}})});
  }

  Value c(const std::string& n, const Value& x) {
    const Value narrow = chain(n, x, {{"branch1x1", {.out = 320}}});
    const Value wide = chain(n, x, {{"branch3x3_1", {.out = 384}}});
    const Value wide_cross = cross(n, "branch3x3_2", wide);
    const Value twice = chain(n, x,
                              {{"branch3x3dbl_1", {.out = 448}},
                               {"branch3x3dbl_2", {.out = 384, .kernel = 3, .pad = 1}}});
    const Value twice_cross = cross(n, "branch3x3dbl_3", twice);
    return joined(n, {narrow, wide_cross, twice_cross, pooled(n, x, 192)});
  }

  Builder b_;
  const int64_t classes_;
};

}  // namespace

Model inception_v3(const BuildOptions& o) { return InceptionBuilder(o).build(); }

}  // namespace ndtrain::models
