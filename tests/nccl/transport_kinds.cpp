// Messages beside a library are what they are without it.
#include "tests/nccl/nccl_ranks.h"

namespace ndtrain::comm_tests {

std::vector<TransportKind> transport_kinds() { return {{"Nccl", nccl_tests::nccl_transports}}; }

}  // namespace ndtrain::comm_tests
