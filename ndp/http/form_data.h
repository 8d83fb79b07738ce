// multipart/form-data (RFC 7578), of which one file is wanted.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/status.h"

namespace ndtrain::ndp {

bool is_form(std::string_view content_type);

// Leaves of a form's body the one file in it. kCorrupt: it is not what its type says, or ended
// early; kNotFound: it has no file; kExists: it has more than one. `body` is then as good as gone.
Status leave_the_file(std::string_view content_type, std::string& body);

}  // namespace ndtrain::ndp
