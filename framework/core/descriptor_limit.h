// How many descriptors a process may have open.
#pragma once

namespace ndtrain {

// As many as the system allows at all. The soft limit that processes begin with, 1024 on most
// systems, is for those that call select(), which nothing here does. Where it cannot be raised it
// stays.
void raise_descriptor_limit();

}  // namespace ndtrain
