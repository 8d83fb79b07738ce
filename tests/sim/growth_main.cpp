// ndt_growth DIRECTORY STORES PHOTOS [SECONDS [inventories]]: what a Tuner's work takes with STORES
// PipeStores of PHOTOS photos each, and idle for SECONDS, as JSON; with the word, what they hold
// alone, and no row. For bench/growth.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "tests/sim/growth.h"

namespace {
using namespace ndtrain;

Json json_of(const sim::GrowthCost& c) {
  return {{"seconds", c.seconds},
          {"messages", c.messages},
          {"bytes", c.bytes},
          {"files_written", c.files_written},
          {"bytes_written", c.bytes_written},
          {"heap", c.heap},
          {"peak_heap", c.peak_heap},
          {"peak_mapped", c.peak_mapped}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 6) {
    std::fprintf(stderr, "usage: ndt_growth DIRECTORY STORES PHOTOS [SECONDS [inventories]]\n");
    return 2;
  }
  try {
    log::set_level(log::Level::kError);
    sim::GrowthSetting setting{.stores = std::strtoull(argv[2], nullptr, 10),
                               .photos = std::strtoull(argv[3], nullptr, 10)};
    if (argc >= 5) setting.idle_s = std::strtod(argv[4], nullptr);
    setting.inventories_alone = argc == 6 && std::string_view(argv[5]) == "inventories";
    const sim::Growth g = sim::grow(real_fs(), argv[1], setting);
    if (!g.failure.empty()) throw Error("the job is not done: ", g.failure);
    std::printf("%s\n", json_text({{"stores", setting.stores},
                                   {"photos", setting.stores * setting.photos},
                                   {"idle_s", setting.idle_s},
                                   {"delivered", g.delivered},
                                   {"resident", g.resident},
                                   {"connect", json_of(g.connect)},
                                   {"idle", json_of(g.idle)},
                                   {"inventory", json_of(g.inventory)},
                                   {"rows", json_of(g.rows)},
                                   {"after", json_of(g.after)},
                                   {"leave", json_of(g.leave)}})
                            .c_str());
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ndt_growth: %s\n", e.what());
    return 1;
  }
}
