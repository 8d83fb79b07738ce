// Products of a large matrix with a few vectors, and what makes these orthonormal. Matrices are in
// f32 by rows, vectors one after the other; the same bits for any compiler that keeps IEEE.
#pragma once

#include <cstdint>
#include <span>

namespace ndtrain {

struct MatrixSize {
  int64_t rows = 0, columns = 0;
};

// Vector c of `out`, of `size.rows` elements, is M times vector c of `q`, of `size.columns`.
void multiply(std::span<const float> m, MatrixSize size, std::span<const float> q,
              std::span<float> out);
// Vector c of `out`, of `size.columns` elements, is M transposed times vector c of `p`.
void multiply_transposed(std::span<const float> m, MatrixSize size, std::span<const float> p,
                         std::span<float> out);
// m = sum over c of p_c q_c^T.
void add_up_products(std::span<const float> p, std::span<const float> q, MatrixSize size,
                     std::span<float> m);

// By the modified Gram-Schmidt process, in double: of vectors of `length` elements the first
// becomes of norm 1, and so on. What is left of one that depends on those before it is 0.
void orthonormalise(std::span<float> vectors, int64_t length);

}  // namespace ndtrain
