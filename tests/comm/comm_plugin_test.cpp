#include "framework/comm/comm_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/model_builder.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

std::string fake(const std::string& name) {
  return support::build_path("/tests/comm/libndt_comm_") + name + ".so";
}

TEST(CommPlugin, OneThatIsNotThereIsMissedByNameWithTheRemedy) {
  EXPECT_THAT(error_of([] { find_comm_plugin("none"); }),
              AllOf(HasSubstr("no communication plugin 'none'"), HasSubstr("libndt_none.so"),
                    HasSubstr("NDTRAIN_BACKEND_PATH"), HasSubstr("looked in")));
}

TEST(CommPlugin, WhatCannotServeIsRefused) {
  EXPECT_THAT(error_of([] { load_comm_plugin("/nowhere/libndt_mpi.so"); }),
              HasSubstr("/nowhere/libndt_mpi.so"));
  EXPECT_THAT(error_of([] { load_comm_plugin(fake("plain")); }), HasSubstr("ndt_comm_main"));
  EXPECT_THAT(error_of([] { load_comm_plugin(fake("silent")); }), HasSubstr("cannot serve"));
  EXPECT_THAT(error_of([] { load_comm_plugin(fake("partial")); }), HasSubstr("lacks a part"));
  EXPECT_THAT(
      error_of([] { load_comm_plugin(fake("newer")); }),
      AllOf(HasSubstr("version " + std::to_string(NDT_COMM_VERSION + 1)),
            HasSubstr(std::to_string(NDT_COMM_VERSION) + " is needed"), HasSubstr("rebuild")));
}

}  // namespace
}  // namespace ndtrain
