// How rows of the database become LabelRows.
#pragma once

#include "ndp/labels/label_db.h"
#include "ndp/sqlite/sqlite.h"

namespace ndtrain {

// [[class id, score], …]; throws Error for a score that is not finite.
std::string top_k_text(const std::vector<ScoredClass>& top_k);
// Throws SqliteFailure (kCorrupt) for anything else.
std::vector<ScoredClass> top_k_from(const std::string& text);
Digest digest_from(const std::string& bytes);

// What label_row expects of a statement, from column 0.
inline constexpr std::string_view kLabelColumns =
    "l.photo, ph.sha256, l.class, c.name, l.score, l.top_k, l.source, l.version, v.content, l.time";
inline constexpr std::string_view kLabelJoins =
    " JOIN photos ph ON ph.id = l.photo"
    " JOIN classes c ON c.task = l.task AND c.id = l.class"
    " LEFT JOIN versions v ON v.id = l.version";
LabelRow label_row(const sql::Statement& row);

}  // namespace ndtrain
