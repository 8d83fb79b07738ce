// How much loss a model pays for larger batches and slower links: measured against a reference
// run, for many pairs of the two. A text file, one field a line:
//
//   ndtrain-convergence-1
//   model resnet18
//   over bandwidth                   or: over drop
//   reference_batch 256              rows of all ranks together
//   reference_drop 0.9
//   largest_batch 1024               rows: what fractions of batches are of
//   point 0.25 0.5 0.0125            batch, bandwidth or drop, penalty
//
// The first line comes first, the others in any order, points at least once and others once. Empty
// lines and those that begin with # say nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ndtrain {
namespace limits {

inline constexpr int64_t kConvergenceText = int64_t{64} << 10;  // bytes
inline constexpr int kConvergencePoints = 128;

}  // namespace limits

struct ConvergenceProfile {
  enum class Over : uint8_t { kBandwidth, kDrop };
  struct Point {
    double batch = 0;  // of all ranks, in parts of largest_batch: above 0, at most 1
    // In parts of the Mb/s that the reference needs on the machines it is run on (above 0, at most
    // 1000), or a training's drop (from 0, at most .9999).
    double second = 0;
    double penalty = 0;  // loss - loss of the reference, after as many rows; in parts of the latter

    bool operator==(const Point&) const = default;
  };

  std::string model;
  Over over = Over::kBandwidth;
  int64_t reference_batch = 0;
  double reference_drop = 0;  // SparseSyncOptions::drop
  int64_t largest_batch = 0;
  std::vector<Point> points;

  bool operator==(const ConvergenceProfile&) const = default;
};

// Throws Error naming the field: no model or one whose name is not plain text (is_plain(), text.h)
// or has spaces at an end, no points or more than limits::kConvergencePoints, a number that is out
// of its range; the reference's batch is from 1 to the largest.
void validate(const ConvergenceProfile& profile);

// What parse_convergence_profile() reads back as the same. Throws where validate() does.
std::string convergence_profile_text(const ConvergenceProfile& profile);

// `file` is for messages. Throws Error, "FILE, line 4: …" with the field and what it says: another
// first line, an unknown field, one that is there twice, too few or too many words, what is no
// number; "FILE: …" where a field is missing, the text has more than limits::kConvergenceText
// bytes, or validate() throws.
ConvergenceProfile parse_convergence_profile(std::string_view text, const std::string& file);

}  // namespace ndtrain
