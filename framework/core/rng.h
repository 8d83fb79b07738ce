// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). A number is a function of (seed, stream, index) alone, so results do not depend
// on threads or on the order in which numbers are asked for.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ndtrain {

class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  // An independent stream for a named purpose ("shuffle", a parameter's name).
  Rng(uint64_t seed, std::string_view purpose);

  std::array<uint32_t, 4> block(uint64_t index) const;
  uint64_t bits(uint64_t index) const;
  double uniform(uint64_t index) const;  // [0, 1), 53 bits
  double normal(uint64_t index) const;   // Box-Muller, mean 0, deviation 1

  // Sequential use, for what has an order of its own.
  uint64_t next_bits() { return bits(next_++); }
  double next_uniform() { return uniform(next_++); }
  double next_normal() { return normal(next_++); }
  uint64_t next_below(uint64_t n);  // uniform over [0, n), without bias; n > 0

 private:
  uint64_t seed_, stream_, next_ = 0;
};

// 0 … n-1 in an order that is a function of the Rng's seed and stream.
std::vector<int64_t> permutation(int64_t n, Rng rng);

}  // namespace ndtrain
