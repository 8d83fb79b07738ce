// How ranks exchange over slow links, as it was asked for: by flags of ndtrain train, or by the
// keys of a job's JSON, which are those flags with '_' for '-'.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ndtrain::ndp {

// Whether `sync` is sparse, local, diloco or powersgd, whose model depends on the number of ranks.
bool is_slow_link(std::string_view sync);

// What was not asked for is the method's own.
struct SlowLinkSpec {
  std::optional<std::string> compressor, scan, all_gather, sparse_momentum, wire_dtype;
  std::optional<double> drop, outer_lr, outer_momentum, mixing;
  std::optional<int64_t> staleness, drain_every, inner_steps, fragments, overlap, factor_rank;
  std::optional<int64_t> verify;     // steps; changes nothing about what is trained
  std::vector<std::string> drop_of;  // "NAME=D" each, see drops.h
  bool pieces = false;
  // Batches and drop follow what ranks and links take (RateController), by what they cost:
  // the text of a ConvergenceProfile; of one rank at most so many rows.
  bool controller = false;
  std::optional<std::string> convergence;
  std::optional<int64_t> largest_batch;
};

// Calls visit(key, field, methods) for each: its key, and which methods have it, between
// commas. `Spec` is SlowLinkSpec, const or not. The order is that of keys in a job's JSON.
template <typename Spec, typename Visit>
void for_each_setting(Spec& spec, const Visit& visit) {
  constexpr std::string_view kSparse = "sparse", kPowerSgd = "powersgd", kDiloco = "diloco",
                             kLocal = "local, diloco", kElements = "sparse, local, diloco",
                             kAll = "sparse, local, diloco, powersgd";
  visit("compressor", spec.compressor, kElements);
  visit("scan", spec.scan, kElements);
  visit("all_gather", spec.all_gather, kElements);
  visit("sparse_momentum", spec.sparse_momentum, kSparse);
  visit("wire_dtype", spec.wire_dtype, kAll);
  visit("drop", spec.drop, kElements);
  visit("outer_lr", spec.outer_lr, kDiloco);
  visit("outer_momentum", spec.outer_momentum, kDiloco);
  visit("mixing", spec.mixing, kLocal);
  visit("staleness", spec.staleness, kSparse);
  visit("drain_every", spec.drain_every, kElements);
  visit("inner_steps", spec.inner_steps, kLocal);
  visit("fragments", spec.fragments, kLocal);
  visit("overlap", spec.overlap, kLocal);
  visit("factor_rank", spec.factor_rank, kPowerSgd);
  visit("verify", spec.verify, kAll);
  visit("drop_of", spec.drop_of, kSparse);
  visit("pieces", spec.pieces, kSparse);
  visit("controller", spec.controller, kSparse);
  visit("convergence", spec.convergence, kSparse);
  visit("largest_batch", spec.largest_batch, kSparse);
}

// Whether a field of that was asked for.
template <typename T>
bool is_asked(const std::optional<T>& field) {
  return field.has_value();
}
inline bool is_asked(bool field) { return field; }
inline bool is_asked(const std::vector<std::string>& field) { return !field.empty(); }

}  // namespace ndtrain::ndp
