#include "cli/verb.h"

namespace ndtrain::cli {

void declare_version(ArgsSpec&) {}

int run_version(Context& context, const Args&) {
  context.print(Json{{"version", NDT_VERSION}}, "ndtrain " NDT_VERSION "\n");
  return kOk;
}

}  // namespace ndtrain::cli
