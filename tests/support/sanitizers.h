// Whether a sanitizer watches the program under test: asked when it runs, because tests are
// compiled once for a build with one and a build without.
#pragma once

namespace ndtrain::support {

bool under_sanitizer();

}  // namespace ndtrain::support
