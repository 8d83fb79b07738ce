#pragma once

#include "framework/graph/model.h"

namespace ndtrain {

// One initialiser for equal small integer constants, none for those nobody reads: as every model
// has it that was imported, so that one made here has the content_id of its file.
void share_constants(Model& m);

}  // namespace ndtrain
