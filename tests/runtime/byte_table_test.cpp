// ByteTable on every build of the cpu plugin and on onednn, in the layouts that bytes lie in.
#include <gtest/gtest.h>

#include "tests/runtime/onednn_cases.h"

namespace ndtrain {
namespace {

// Every byte is looked up, also in the last few that are no whole vector.
NodeRun table_run(DType from, DType to, const Shape& shape) {
  NodeRun run{.op = "ByteTable"};
  const auto add = [&](DType t, const Shape& s, int step, bool constant) {
    run.in.push_back({t, s});
    run.data.emplace_back(run.in.back().bytes());
    for (int64_t i = 0; i < s.count(); ++i) {
      run.data.back().data()[i] = static_cast<std::byte>(i * step + 11);
    }
    run.constant.push_back(constant);
  };
  add(from, shape, 3, false);
  add(to, {256}, 7, true);
  run.out.push_back({to, shape});
  run.in_place = true;
  return run;
}

TEST(ByteTable, GivesWhatItSaysInAnyLayoutAndByAnyThreads) {
  for (const DType from : {DType::kU8, DType::kI8}) {
    for (const DType to : {DType::kU8, DType::kI8}) {
      for (const Shape& shape : {Shape{3, 40, 7, 5}, Shape{1, 24, 112, 112}, Shape{301}}) {
        const NodeRun run = table_run(from, to, shape);
        const auto want = reference_of(run);
        for (const int threads : {1, 2}) {
          for (const auto& plugin : Plugin::cpu_builds()) {
            plugin->set_threads(threads);
            compare(find_op("ByteTable"), "ByteTable", run, 0, want, plugin->run(run));
          }
          if (!onednn()) return;
          onednn()->set_threads(threads);
          for (const Start start : {Start::kPlain, Start::kLast}) {
            const auto ports = onednn()->prefer(run, ports_from(run, start));
            ASSERT_TRUE(ports.has_value()) << onednn()->abi().last_error();
            compare(find_op("ByteTable"), "ByteTable", run, 0, want, onednn()->run(run, *ports));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ndtrain
