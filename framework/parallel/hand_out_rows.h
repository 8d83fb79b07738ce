// Rows of training data that rank 0 has, on their way to the ranks that compute with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "framework/comm/communicator.h"

namespace ndtrain {

// Rank 0's part of what is collective: each other rank says which of the `rows` it lacks, one rank
// after the other, and gets them. `read` fills a row, all of which are equally long. Returns the
// bytes of rows that were sent. Throws RankLost; Error where a rank asks for what there cannot be.
int64_t hand_out_rows(Communicator& ranks, int64_t rows, size_t row_bytes,
                      const std::function<void(int64_t row, std::span<std::byte> to)>& read);

// Another rank's: `keep` gets the rows that are `lacking`, in their order.
void receive_rows(Communicator& ranks, std::span<const int64_t> lacking, size_t row_bytes,
                  const std::function<void(int64_t row, std::span<const std::byte> from)>& keep);

}  // namespace ndtrain
