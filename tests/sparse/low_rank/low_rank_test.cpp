#include "framework/sparse/low_rank/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "framework/core/rng.h"

namespace ndtrain {
namespace {

std::vector<float> normal(int64_t n, const char* name) {
  Rng rng(3, name);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& x : values) x = static_cast<float>(rng.next_normal());
  return values;
}

constexpr MatrixSize kSizes[] = {{1, 1}, {1, 40}, {40, 1}, {7, 33}, {33, 16}, {16, 17}};

TEST(LowRank, ProductsAreThoseInDouble) {
  for (const MatrixSize size : kSizes) {
    for (const int64_t vectors : {1, 3}) {
      const std::vector<float> m = normal(size.rows * size.columns, "m"),
                               p = normal(size.rows * vectors, "p"),
                               q = normal(size.columns * vectors, "q");
      std::vector<float> mq(p.size()), mtp(q.size()), pq(m.size());
      multiply(m, size, q, mq);
      multiply_transposed(m, size, p, mtp);
      add_up_products(p, q, size, pq);
      const auto at = [](const std::vector<float>& of, int64_t i) {
        return static_cast<double>(of[static_cast<size_t>(i)]);
      };
      for (int64_t c = 0; c < vectors; ++c) {
        for (int64_t i = 0; i < size.rows; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < size.columns; ++j) {
            sum += at(m, i * size.columns + j) * at(q, c * size.columns + j);
          }
          EXPECT_NEAR(at(mq, c * size.rows + i), sum, 1e-5);
        }
        for (int64_t j = 0; j < size.columns; ++j) {
          double sum = 0;
          for (int64_t i = 0; i < size.rows; ++i) {
            sum += at(m, i * size.columns + j) * at(p, c * size.rows + i);
          }
          EXPECT_NEAR(at(mtp, c * size.columns + j), sum, 1e-5);
        }
      }
      for (int64_t i = 0; i < size.rows; ++i) {
        for (int64_t j = 0; j < size.columns; ++j) {
          double sum = 0;
          for (int64_t c = 0; c < vectors; ++c) {
            sum += at(p, c * size.rows + i) * at(q, c * size.columns + j);
          }
          EXPECT_NEAR(at(pq, i * size.columns + j), sum, 1e-5);
        }
      }
    }
  }
}

TEST(LowRank, OrthonormalVectorsAreSo) {
  constexpr int64_t kLength = 50, kVectors = 4;
  std::vector<float> v = normal(kLength * kVectors, "v");
  orthonormalise(v, kLength);
  for (int64_t a = 0; a < kVectors; ++a) {
    for (int64_t b = 0; b < kVectors; ++b) {
      double sum = 0;
      for (int64_t i = 0; i < kLength; ++i) {
        sum += static_cast<double>(v[static_cast<size_t>(a * kLength + i)]) *
               static_cast<double>(v[static_cast<size_t>(b * kLength + i)]);
      }
      EXPECT_NEAR(sum, a == b ? 1 : 0, 1e-6);
    }
  }
}

TEST(LowRank, OfVectorsThatDependOnOthersNothingIsLeft) {
  std::vector<float> v = {3, 4, 6, 8, 0, 0, 1, 0};
  orthonormalise(v, 2);
  EXPECT_NEAR(v[0], 0.6, 1e-6);
  for (const size_t i : {2, 3, 4, 5}) EXPECT_EQ(v[i], 0) << i;
  EXPECT_NEAR(std::hypot(v[6], v[7]), 1, 1e-6);
}

// One iteration finds a matrix of rank 2 from any two vectors.
TEST(LowRank, AMatrixOfThatRankIsFound) {
  constexpr MatrixSize kSize{20, 30};
  const std::vector<float> a = normal(40, "a"), b = normal(60, "b");
  std::vector<float> m(600), q = normal(60, "q"), p(40), found(600);
  add_up_products(a, b, kSize, m);
  multiply(m, kSize, q, p);
  orthonormalise(p, kSize.rows);
  multiply_transposed(m, kSize, p, q);
  add_up_products(p, q, kSize, found);
  for (size_t i = 0; i < m.size(); ++i) EXPECT_NEAR(found[i], m[i], 1e-4);
}

}  // namespace
}  // namespace ndtrain
