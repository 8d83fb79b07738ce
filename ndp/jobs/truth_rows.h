// What people, imports and folders say of photos whose embeddings are known: examples to learn
// from.
#pragma once

#include <string>
#include <vector>

#include "ndp/labels/label_db.h"
#include "ndp/similarity/linear_probe.h"

namespace ndtrain::ndp {

// Embeddings of photos that differ, and which photo each row is of.
struct KnownPhotos {
  EmbeddingRows rows;  // of length 1
  std::vector<Digest> photos;
};

struct TruthRows {
  std::vector<ClassInfo> classes;      // those that have an example, by id
  std::vector<ProbeExample> examples;  // labels counted in `classes`; by the photos' digests
  std::vector<LabelRow> labels;        // of each example, where its photo lies first
  int64_t without_embedding = 0;       // photos that have a label, and no row
};

// The current ones, of a collection and task.
TruthRows truth_rows(LabelDb& db, int64_t collection, int64_t task, const KnownPhotos& known);

// The same without classes of fewer than `least` examples.
TruthRows without_rare_classes(TruthRows truth, size_t least);

}  // namespace ndtrain::ndp
