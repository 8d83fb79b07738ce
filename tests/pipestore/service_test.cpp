#include "ndp/pipestore/service.h"

#include <gtest/gtest.h>

#include "framework/core/memory_fs.h"
#include "ndp/wire/protocol.h"

namespace ndtrain {
namespace {

using Sent = std::vector<wire::FromStore>;

class Link final : public LinkClient {
 public:
  explicit Link(Sent& sent) : sent_(sent) {}
  void send(wire::FromStore message) override { sent_.push_back(std::move(message)); }
  void close() override {}

 private:
  Sent& sent_;
};

struct NoLanes final : Lanes {
  void start(size_t, Task) override {}
};

struct NoPhotos final : RowMaker {
  uint64_t photos() const override { return 0; }
  Result<StoreInventory> scan() override { return StoreInventory(); }
  Result<RowWork::RowSize> open(const wire::Job&, const std::string&, const std::string&) override {
    return RowWork::RowSize{1};
  }
  Result<Made> make(std::span<const size_t>) override { return Made(); }
};

TEST(PipeStoreService, AVersionThatDidNotFitOnTheDiskIsTriedAgain) {
  MemoryFs fs;
  ManualClock clock;
  StateDirectory state = StateDirectory::open(fs, "state", "pipestore").or_throw();
  NoLanes lanes;
  NoPhotos maker;
  Sent sent;
  LinkId link = 0;
  const auto dial = [&](LinkId id) {
    link = id;
    return std::make_unique<Link>(sent);
  };
  PipeStoreService service({fs, clock, state, lanes, maker, dial}, {}, 1);
  service.tick();
  service.handle({link, LinkOpened{"the Tuner", ""}});
  wire::ToStore m;
  m.set_term(1);
  m.mutable_welcome()->set_protocol(kProtocols[0]);
  m.mutable_welcome()->set_tuner("0123456789abcdef");
  m.mutable_welcome()->set_heartbeat_ms(600'000);
  service.handle({link, m});

  fs.set_capacity(0);
  m.mutable_publish()->set_version(3);
  service.handle({link, m});
  EXPECT_EQ(service.in_force().version, 0U);

  fs.set_capacity(1 << 20);
  clock.advance(service.next() - clock.monotonic());
  service.tick();
  EXPECT_EQ(service.in_force().version, 3U);
  EXPECT_TRUE(sent.back().has_in_force());
}

}  // namespace
}  // namespace ndtrain
