// In which order requests that wait are answered.
#include "ndp/http/fair_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "ndp/http/request_bounds.h"

namespace ndtrain::ndp {
namespace {

using enum RequestClass;

class FairQueueOrder : public ::testing::Test {
 protected:
  void wait(RequestClass of, const std::string& client, int n = 1) {
    for (int i = 0; i < n; ++i) queue_.push(of, client, client + std::to_string(i));
  }
  // What is served next, so many times.
  std::string serve(int n, RequestClass last = kUpload) {
    std::string all;
    for (int i = 0; i < n; ++i) {
      const auto next = queue_.pop(last);
      all += (i > 0 ? " " : "") + (next ? next->second : "-");
    }
    return all;
  }

  FairQueue<std::string> queue_;
};

TEST_F(FairQueueOrder, AnOperatorDoesNotWaitBehindAHundredUploads) {
  wait(kUpload, "phone", 100);
  wait(kPerson, "ann", 10);
  EXPECT_EQ(serve(1), "ann0");
  wait(kOperator, "op");
  wait(kHealth, "probe");
  EXPECT_EQ(serve(3), "probe0 op0 ann1");
}

TEST_F(FairQueueOrder, UploadsHaveAFifthWhilePeopleAsk) {
  wait(kUpload, "phone", 3);
  wait(kPerson, "ann", 9);
  EXPECT_EQ(serve(13), "ann0 ann1 ann2 ann3 phone0 ann4 ann5 ann6 ann7 phone1 ann8 phone2 -");
}

TEST_F(FairQueueOrder, ClientsTakeTurns) {
  wait(kUpload, "hundred", 100);
  wait(kUpload, "one");
  wait(kUpload, "two", 2);
  EXPECT_EQ(serve(6), "hundred0 one0 two0 hundred1 two1 hundred2");
  wait(kUpload, "one");
  EXPECT_EQ(serve(3), "hundred3 one0 hundred4") << "who comes back waits for one turn of others";
}

TEST_F(FairQueueOrder, ClassesThatMayNotBeginWaitAndKeepTheirTurn) {
  wait(kUpload, "phone", 2);
  wait(kPerson, "ann");
  EXPECT_EQ(serve(2, kPerson), "ann0 -");
  EXPECT_FALSE(queue_.has(kPerson));
  EXPECT_TRUE(queue_.has(kUpload));
  EXPECT_EQ(queue_.size(), 2U);
  EXPECT_EQ(serve(3), "phone0 phone1 -");
  EXPECT_EQ(queue_.size(), 0U);
}

TEST_F(FairQueueOrder, WhatPeopleHadAloneIsNotHeldAgainstThem) {
  wait(kPerson, "ann", 20);
  serve(10);
  wait(kUpload, "phone", 2);
  EXPECT_EQ(serve(6), "phone0 ann10 ann11 ann12 ann13 phone1");
}

TEST(RequestBounds, UploadsLeaveAQuarterToOthers) {
  RequestBounds bounds(8);
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(bounds.objection(kUpload, ""));
    bounds.take(kUpload, "");
  }
  EXPECT_EQ(bounds.objection(kUpload, "phone"), "as many uploads are being answered as can be");
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(bounds.objection(kPerson, ""));
    bounds.take(kPerson, "");
  }
  EXPECT_EQ(bounds.objection(kPerson, "ann"), "as many requests are being answered as can be");
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(bounds.objection(kOperator, "op"));
    bounds.take(kOperator, "op");
  }
  bounds.give_back(kUpload, "");
  EXPECT_FALSE(bounds.objection(kUpload, "phone"));
}

TEST(RequestBounds, OneClientLeavesAQuarterToOthers) {
  RequestBounds bounds(8);
  for (int i = 0; i < 6; ++i) bounds.take(kPerson, "ann");
  EXPECT_EQ(bounds.objection(kPerson, "ann"),
            "ann has 6 requests under way, as many as one client may have");
  EXPECT_FALSE(bounds.objection(kPerson, "ben"));
  bounds.give_back(kPerson, "ann");
  EXPECT_FALSE(bounds.objection(kPerson, "ann"));
}

TEST(RequestBounds, WhoStandsForManyHasNoBoundOfItsOwn) {
  RequestBounds bounds(8);
  for (int i = 0; i < 7; ++i) bounds.take(kPerson, "");
  EXPECT_FALSE(bounds.objection(kPerson, ""));
}

}  // namespace
}  // namespace ndtrain::ndp
