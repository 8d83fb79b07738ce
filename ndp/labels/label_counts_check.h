// Whether what label_counts.h says is what the labels of SQLite's file say, and how it is made so.
// All labels are read: for a check behind other work, and for `ndtrain fsck`. Any thread.
#pragma once

#include <stop_token>
#include <string>

#include "framework/core/status.h"

namespace ndtrain::ndp {

// Of one moment, while others may write. kCorrupt, with the first row that differs; kCancelled
// when `stop` was requested before the end; kIo. A file of a program that counted nothing is good.
// Sums of scores may differ by what rounding does to them as labels come and go.
Status check_label_counts(const std::string& path, const std::stop_token& stop = {});

// Counts all labels again, in one transaction.
Status count_labels_again(const std::string& path);

}  // namespace ndtrain::ndp
