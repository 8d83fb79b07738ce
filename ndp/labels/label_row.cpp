#include "ndp/labels/label_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ndtrain {

std::string top_k_text(const std::vector<ScoredClass>& top_k) {
  std::string text = "[";
  for (const ScoredClass& scored : top_k) {
    if (!std::isfinite(scored.score)) throw Error("label: a top-k score of ", scored.score);
    if (text.size() > 1) text += ',';
    // Scores are computed in f32: more digits would be noise.
    text += fmt::format("[{},{}]", scored.class_id, static_cast<float>(scored.score));
  }
  return text += ']';
}

std::vector<ScoredClass> top_k_from(const std::string& text) {
  const auto corrupt = [] {
    return sql::SqliteFailure{Status(Code::kCorrupt, "the label database has a bad top_k")};
  };
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) throw corrupt();
  std::vector<ScoredClass> top_k;
  for (const nlohmann::json& pair : json) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() ||
        !pair[1].is_number()) {
      throw corrupt();
    }
    top_k.push_back({pair[0].get<int64_t>(), pair[1].get<float>()});
  }
  return top_k;
}

Digest digest_from(const std::string& bytes) {
  Digest digest;
  if (bytes.size() != digest.size()) {
    throw sql::SqliteFailure{Status(Code::kCorrupt, "the label database has a bad digest")};
  }
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

LabelRow label_row(const sql::Statement& row) {
  LabelRow label{.photo = row.integer(0),
                 .digest = digest_from(row.bytes(1)),
                 .class_id = row.integer(2),
                 .class_name = row.bytes(3),
                 .source = static_cast<LabelSource>(row.integer(6)),
                 .time = row.integer(9)};
  if (!row.is_null(4)) label.score = row.real(4);
  if (!row.is_null(5)) label.top_k = top_k_from(row.bytes(5));
  if (!row.is_null(7)) label.version = row.integer(7);
  if (!row.is_null(8)) label.version_content = digest_from(row.bytes(8));
  return label;
}

}  // namespace ndtrain
