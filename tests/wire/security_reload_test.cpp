#include "ndp/wire/security_reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ndp/wire/link_security.h"

namespace ndtrain::ndp {
namespace {

using namespace std::chrono_literals;

class Reload : public ::testing::Test {
 protected:
  LinkSecurity in_files_{.certificate = "first"};
  std::string broken_;  // why they cannot be read
  Status refused_;      // why they are not taken
  std::vector<std::string> taken_;
  int reads_ = 0;
  SecurityReload<LinkSecurity> reload_{{.what = "links",
                                        .read =
                                            [this] {
                                              ++reads_;
                                              if (!broken_.empty()) throw Error(broken_);
                                              return in_files_;
                                            },
                                        .renew =
                                            [this](const LinkSecurity& s) {
                                              if (refused_.ok()) taken_.push_back(s.certificate);
                                              return refused_;
                                            }},
                                       in_files_};
};

TEST_F(Reload, TakesWhatIsNewOnce) {
  reload_.look(0s);
  EXPECT_TRUE(taken_.empty());
  in_files_.certificate = "second";
  reload_.look(999ms);
  EXPECT_EQ(reads_, 1) << "not more often than every second";
  reload_.look(1s);
  reload_.look(2s);
  EXPECT_EQ(taken_, std::vector<std::string>{"second"});
  EXPECT_EQ(reload_.now().certificate, "second");
  in_files_.revoked = "a list";
  reload_.look(3s);
  EXPECT_EQ(taken_.size(), 2u) << "a list is new, too";
}

TEST_F(Reload, KeepsWhatItHasWhileTheFilesDoNotDo) {
  broken_ = "a.crt: holds no certificate in PEM";
  reload_.look(0s);
  EXPECT_EQ(reload_.trouble(), broken_);
  EXPECT_EQ(reload_.now().certificate, "first");
  broken_.clear();
  in_files_.certificate = "second";
  refused_ = Status(Code::kCorrupt, "do not fit");
  reload_.look(1s);
  EXPECT_EQ(reload_.trouble(), "do not fit");
  EXPECT_EQ(reload_.now().certificate, "first");
  refused_ = {};
  reload_.look(2s);
  EXPECT_EQ(reload_.trouble(), "");
  EXPECT_EQ(reload_.now().certificate, "second");
}

TEST_F(Reload, SaysATroubleOnceAnHour) {
  broken_ = "a.crt: holds no certificate in PEM";
  ::testing::internal::CaptureStderr();
  for (auto t = 0s; t < 3602s; t += 1s) reload_.look(t);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 2) << said;
  EXPECT_THAT(
      said, ::testing::HasSubstr("links: the certificates that were in force stay so: " + broken_));
}

TEST(ReloadOfNothing, ReadsNothing) {
  SecurityReload<LinkSecurity> reload({.what = "links"}, {});
  reload.look(1s);
  EXPECT_EQ(reload.trouble(), "");
}

}  // namespace
}  // namespace ndtrain::ndp
