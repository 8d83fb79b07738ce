#include "backends/onednn/ops.h"

#include <map>

namespace ndtrain::onednn {

const Op* find_op(std::string_view name) {
  static const std::map<std::string_view, Op> table = {
      {"AveragePool", {prepare_pool, prefer_pool}},
      {"Conv", {prepare_conv, prefer_conv}},
      {"FusedConv", {prepare_conv, prefer_conv}},
      {"GlobalAveragePool", {prepare_pool, prefer_pool}},
      {"MaxPool", {prepare_pool, prefer_pool}},
      {"Reorder", {prepare_reorder, nullptr}},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace ndtrain::onednn
