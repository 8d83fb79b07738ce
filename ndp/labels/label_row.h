// How rows of the database become LabelRows.
#pragma once

#include "ndp/labels/label_tables.h"

namespace ndtrain::ndp {

// As top_k_row. Throws Error for a score that is not finite or an id that is too large.
std::string top_k_blob(const std::vector<ScoredClass>& top_k);
// These throw sql::Failure (kCorrupt) for anything else.
std::vector<ScoredClass> top_k_from(const std::string& blob);
std::vector<ScoredClass> top_k_from_text(const std::string& text);  // schema 1: [[id, score], …]
Digest digest_from(const std::string& bytes);

// What label_row expects of a statement, from column 0.
inline constexpr int kLabelColumnCount = 14;
inline constexpr std::string_view kLabelColumns =
    "l.photo, ph.sha256, l.class, c.name, l.score, l.top_k, l.source, l.version, v.content, l.time,"
    " st.name, l.at_random, v.withdrawn, v.number";
inline constexpr std::string_view kLabelJoins =
    " JOIN photos ph ON ph.id = l.photo"
    " JOIN classes c ON c.task = l.task AND c.id = l.class"
    " LEFT JOIN versions v ON v.id = l.version"
    " LEFT JOIN stores st ON st.id = l.store";
LabelRow label_row(const SqlRow& row);

inline constexpr std::string_view kHeldColumns =
    "l.seq, l.source, l.version, l.class, l.time, l.current, l.score";
StoredLabel held_label(const SqlRow& row, int first);

}  // namespace ndtrain::ndp
