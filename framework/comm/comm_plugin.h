// Communication plugins (comm_abi.h): how they are loaded.
#pragma once

#include <string>
#include <string_view>

#include "framework/comm/comm_abi.h"

namespace ndtrain {

// The plugin `name` ("mpi"), looked for as plugin_file.h says; or the one at `path`. Never
// unloaded. Throw Error saying where it was looked for and why it was refused: another version of
// the interface, too, or something that a plugin must have lacks.
const ndt_comm_plugin& find_comm_plugin(std::string_view name);
const ndt_comm_plugin& load_comm_plugin(const std::string& path);

// This process's rank in what a launcher has started; waits for the others. Throws Error with the
// plugin's words. Once in a process.
ndt_comm* launched_world(const ndt_comm_plugin& plugin);

}  // namespace ndtrain
