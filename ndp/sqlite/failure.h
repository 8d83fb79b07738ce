#pragma once

#include "framework/core/status.h"

namespace ndtrain::ndp::sql {

// Thrown between a database and the folder that uses it, which returns the Status.
struct Failure {
  Status status;
};

}  // namespace ndtrain::ndp::sql
