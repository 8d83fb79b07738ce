#include "backends/mpi/world.h"

#include <algorithm>
#include <utility>

namespace ndt_mpi {
namespace {

ndt_comm_done ended(uint64_t request, const MPI_Status& status, int code) {
  ndt_comm_done done{request, NDT_COMM_OK, 0};
  int error_class = MPI_SUCCESS, bytes = 0;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  if (error_class == MPI_ERR_TRUNCATE) {
    done.status = NDT_COMM_TRUNCATED;
  } else if (error_class != MPI_SUCCESS) {
    done.status = NDT_COMM_LOST;
  } else if (MPI_Get_count(&status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes > 0) {
    done.bytes = static_cast<uint64_t>(bytes);
  }
  return done;
}

}  // namespace

int World::open() {
  int size = 0;
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(comm_, &rank_);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(comm_, &size);
  hosts_.resize(static_cast<size_t>(size));
  return code == MPI_SUCCESS ? learn_hosts() : code;
}

int World::learn_hosts() {
  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  const int code = MPI_Get_processor_name(name, &length);
  if (code != MPI_SUCCESS) return code;
  std::vector<char> all(sizeof name * hosts_.size());
  const int gathered =
      MPI_Allgather(name, sizeof name, MPI_CHAR, all.data(), sizeof name, MPI_CHAR, comm_);
  for (size_t r = 0; r < hosts_.size(); ++r) hosts_[r] = all.data() + r * sizeof name;
  return gathered;
}

void World::close() {
  MPI_Comm_free(&comm_);
  MPI_Finalize();
}

int World::test_some(ndt_comm_done* done, int room, int* n) {
  *n = 0;
  if (under_way_.empty()) return MPI_SUCCESS;
  indices_.resize(under_way_.size());
  statuses_.resize(under_way_.size());
  // What there is no room for is tested the next time.
  const int tested = static_cast<int>(std::min(under_way_.size(), static_cast<size_t>(room)));
  int ready = 0;
  const int code =
      MPI_Testsome(tested, under_way_.data(), &ready, indices_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return code;
  if (ready == MPI_UNDEFINED || ready == 0) return MPI_SUCCESS;
  for (int i = 0; i < ready; ++i) {
    const MPI_Status& s = statuses_[static_cast<size_t>(i)];
    const auto at = static_cast<size_t>(indices_[static_cast<size_t>(i)]);
    done[(*n)++] = ended(requests_[at], s, code == MPI_SUCCESS ? MPI_SUCCESS : s.MPI_ERROR);
    under_way_[at] = MPI_REQUEST_NULL;
  }
  turn(static_cast<size_t>(tested));
  return MPI_SUCCESS;
}

// What has ended goes, and what was tested goes behind the others, so that all have their turn.
void World::turn(size_t tested) {
  std::vector<MPI_Request> under_way;
  std::vector<uint64_t> requests;
  for (size_t i = 0; i < under_way_.size(); ++i) {
    const size_t at = (tested + i) % under_way_.size();
    if (under_way_[at] == MPI_REQUEST_NULL) continue;
    under_way.push_back(under_way_[at]);
    requests.push_back(requests_[at]);
  }
  under_way_ = std::move(under_way);
  requests_ = std::move(requests);
}

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "error " + std::to_string(code);
  return text;
}

}  // namespace ndt_mpi
