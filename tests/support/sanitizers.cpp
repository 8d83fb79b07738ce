#include "tests/support/sanitizers.h"

namespace ndtrain::support {

bool under_sanitizer() { return NDT_SANITIZED != 0; }

}  // namespace ndtrain::support
