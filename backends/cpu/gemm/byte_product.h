// Sums of products of bytes, exact in i32: rows of u8 by a constant matrix of i8.
//
// A sum is the same integer however it is made: by VNNI where this processor has it, four products
// to a lane and instruction, else two at a time from 16 bits. The matrix lies in panels of
// kByteCols columns, each as [K / group][kByteCols][group] with zeros at the ends, where group is 4
// bytes or 2 numbers of 16 bits; so do the rows that are multiplied, kByteRows at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ndtrain::cpu {

inline constexpr int64_t kMostBytesSummed = 65536;  // 255 * 128 to each fits 32 bits
inline constexpr int kByteRows = 6;
#if defined(__AVX512BW__)
inline constexpr int kByteCols = 64;
#elif defined(__AVX2__)
inline constexpr int kByteCols = 16;
#else
inline constexpr int kByteCols = 8;
#endif

class ByteProduct {
 public:
  ByteProduct(int64_t k, int64_t n, bool vnni = has_vnni());
  static bool has_vnni();  // this processor, and this build uses it

  std::string layout() const { return vnni_ ? "bytes by four" : "bytes by two"; }
  int64_t panels() const { return (n_ + kByteCols - 1) / kByteCols; }
  size_t packed_bytes() const { return static_cast<size_t>(panels()) * panel_bytes(); }
  size_t rows_bytes() const { return kByteRows * row_bytes(); }

  // Element (i, c) of the matrix is at w[i * k_step + c * col_step].
  void pack(const int8_t* w, int64_t k_step, int64_t col_step, void* to) const;
  // `rows` <= kByteRows rows of k bytes, each exclusive-or `flip`, which 0x80 makes u8 of i8.
  void stage(const uint8_t* x, int64_t rows, uint8_t flip, void* to) const;
  // Staged rows by one panel.
  void multiply(const void* rows, const void* packed, int64_t panel,
                int32_t (*sums)[kByteCols]) const;

 private:
  int64_t groups() const { return vnni_ ? (k_ + 3) / 4 : (k_ + 1) / 2; }
  size_t row_bytes() const { return static_cast<size_t>(groups()) * 4; }
  size_t panel_bytes() const { return row_bytes() * kByteCols; }

  int64_t k_, n_;
  bool vnni_;
};

}  // namespace ndtrain::cpu
