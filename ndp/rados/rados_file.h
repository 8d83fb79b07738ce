// An object of RADOS as a file: one that is read, and one that is made.
#pragma once

#include <memory>
#include <string>

#include "framework/core/fs.h"
#include "ndp/rados/rados_view.h"

namespace ndtrain::ndp {

// All of it has the bytes that are there now; kIo where they are overwritten meanwhile.
Result<std::unique_ptr<File>> read_rados_file(std::shared_ptr<RadosView> view, std::string path,
                                              std::string name);

// Not there before append(), which happens once, with all of its bytes; durable then. See
// RadosView::add().
std::unique_ptr<File> new_rados_file(std::shared_ptr<RadosView> view, const std::string& path,
                                     std::string name);

}  // namespace ndtrain::ndp
