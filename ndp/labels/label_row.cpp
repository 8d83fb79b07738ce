#include "ndp/labels/label_row.h"

#include <algorithm>
#include <cmath>

#include "framework/core/json.h"
#include "ndp/labels/top_k_row.h"

namespace ndtrain::ndp {

namespace {

sql::Failure corrupt() {
  return sql::Failure{Status(Code::kCorrupt, "the label database has a bad top_k")};
}

}  // namespace

std::string top_k_blob(const std::vector<ScoredClass>& top_k) {
  std::vector<RankedClass> best;
  best.reserve(top_k.size());
  for (const ScoredClass& scored : top_k) {
    if (!std::isfinite(scored.score)) throw Error("label: a top-k score of ", scored.score);
    const auto id = static_cast<uint32_t>(scored.class_id);
    if (id != scored.class_id) throw Error("label: a class id of ", scored.class_id);
    // Scores are computed in f32: more digits would be noise.
    best.push_back({id, static_cast<float>(scored.score)});
  }
  return top_k_row(best);
}

std::vector<ScoredClass> top_k_from(const std::string& blob) {
  if (blob.size() % kRankedClassBytes != 0) throw corrupt();
  std::vector<ScoredClass> top_k;
  for (const RankedClass& ranked : ranked_classes(blob)) {
    if (!std::isfinite(ranked.score)) throw corrupt();
    top_k.push_back({ranked.class_id, ranked.score});
  }
  return top_k;
}

std::vector<ScoredClass> top_k_from_text(const std::string& text) {
  const Json json = try_parse_json(text);
  if (!json.is_array()) throw corrupt();
  std::vector<ScoredClass> top_k;
  for (const Json& pair : json) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() ||
        pair[0].get<uint64_t>() > UINT32_MAX || !pair[1].is_number()) {
      throw corrupt();
    }
    top_k.push_back({pair[0].get<int64_t>(), pair[1].get<float>()});
  }
  return top_k;
}

Digest digest_from(const std::string& bytes) {
  Digest digest;
  if (bytes.size() != digest.size()) {
    throw sql::Failure{Status(Code::kCorrupt, "the label database has a bad digest")};
  }
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

LabelRow label_row(const SqlRow& row) {
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
  label.store = row.bytes(10);
  label.at_random = row.integer(11) != 0;
  label.withdrawn = !row.is_null(12);
  if (!row.is_null(13)) label.version_number = row.integer(13);
  return label;
}

StoredLabel held_label(const SqlRow& row, int first) {
  return {.seq = row.integer(first),
          .source = static_cast<LabelSource>(row.integer(first + 1)),
          .version = row.is_null(first + 2) ? 0 : row.integer(first + 2),
          .class_id = row.integer(first + 3),
          .time = row.integer(first + 4),
          .current = row.integer(first + 5) != 0,
          .score = row.is_null(first + 6) ? 0 : row.real(first + 6)};
}

}  // namespace ndtrain::ndp
