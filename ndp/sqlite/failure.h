#pragma once

#include "framework/core/status.h"

namespace ndtrain::sql {

// Thrown between a database and the folder that uses it, which returns the Status.
struct Failure {
  Status status;
};

}  // namespace ndtrain::sql
