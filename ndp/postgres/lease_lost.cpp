#include "ndp/postgres/lease_lost.h"

#include <atomic>
#include <cstdlib>

#include "framework/core/log.h"

namespace ndtrain::ndp::postgres {
namespace {

std::atomic<LeaseHandler> lease_handler{nullptr};

}  // namespace

void lease_lost(const std::string& what) {
  if (const LeaseHandler handler = lease_handler) handler(what);
  log::error("the lease of the state is lost, this process ends: {}", what);
  std::_Exit(kLeaseLostStatus);
}

LeaseHandler set_lease_handler(LeaseHandler handler) { return lease_handler.exchange(handler); }

}  // namespace ndtrain::ndp::postgres
