#include "framework/parallel/led_training.h"

#include <algorithm>
#include <utility>

#include "framework/core/coding.h"
#include "framework/core/json.h"
#include "framework/parallel/between_ranks.h"

namespace ndtrain {
namespace {

using OrderKind = TrainingOrder::Kind;

constexpr int kLeader = 0;
constexpr size_t kHeader = sizeof(uint64_t) + 1;

// All ranks: those that rank 0 has in use, if any, and what each lacks of its shards'.
void share_rows(RankedTraining& training, SharedRows& rows, ShardRange own) {
  Communicator& ranks = training.communicator();
  const bool leads = ranks.rank() == kLeader;
  const std::string description = broadcast(ranks, kLeader, leads ? rows.description() : "");
  if (description.empty()) return;
  if (!leads) rows.take(description);
  rows.exchange(ranks, own, training.shards());
}

// All ranks that are left when one was lost: whoever has not heard the order in force does now.
void catch_up(RankedTraining& training, SharedRows& rows, TrainingOrder& current, ShardRange own) {
  current = TrainingOrder::parse(broadcast(training.communicator(), kLeader, current.text()));
  share_rows(training, rows, own);
}

void leave_together(RankedTraining& training) {
  try {
    barrier(training.communicator());
  } catch (const RankLost&) {  // who has left already has heard it
  }
}

struct Leaving {};

class Follower {
 public:
  Follower(RankedTraining& training, SharedRows& rows, const std::function<bool()>& stop)
      : training_(training), rows_(rows), stop_(stop) {
    training_.on_shards([this](ShardRange own) {
      catch_up(training_, rows_, current_, own);
      // Rows have come; and where ranks regroup while they gather, rank 0 asks for it again.
      const bool done = current_.kind == OrderKind::kRows || current_.kind == OrderKind::kGather;
      if (done) done_ = current_.number;
    });
  }
  ~Follower() { training_.on_shards({}); }

  FollowEnd run() {
    try {
      while (next()) {
        const uint64_t number = current_.number;  // the next one may come while ranks regroup
        if (current_.kind == OrderKind::kEnd || current_.kind == OrderKind::kPart) {
          leave_together(training_);
          return current_.kind == OrderKind::kEnd ? FollowEnd::kOver : FollowEnd::kParted;
        }
        carry_out();
        done_ = std::max(done_, number);
      }
    } catch (const Leaving&) {
      training_.communicator().leave();
    }
    return FollowEnd::kStopped;
  }

 private:
  // Waits for an order that is not done yet; false: told to stop.
  bool next() {
    while (current_.number <= done_) {
      try {
        const auto text = await_broadcast(training_.communicator(), kLeader, stop_);
        if (!text) return false;
        current_ = TrainingOrder::parse(*text);
      } catch (const RankLost& lost) {
        training_.regroup_after(lost);
      }
    }
    return true;
  }

  void carry_out() {
    switch (current_.kind) {
      case OrderKind::kRows:
        return take_rows();
      case OrderKind::kTrain:
        return train();
      case OrderKind::kRestore:
        return training_.restore(parse_checkpoint(current_.bytes).or_throw());
      case OrderKind::kScaleRate:
        return training_.scale_lr(parse_json(current_.bytes).get<double>());
      case OrderKind::kResetOptimizer:
        return training_.reset_optimizer();
      case OrderKind::kGather:
        return training_.gather();
      case OrderKind::kPart:
      case OrderKind::kEnd:
        return;
    }
  }

  void take_rows() {
    try {
      share_rows(training_, rows_, training_.own_shards());
    } catch (const RankLost& lost) {
      training_.regroup_after(lost);
    }
  }

  // An epoch that rank 0 is told to stop in ends here, too.
  void train() {
    EpochResult result;
    static_cast<void>(training_.train_epoch(rows_.dataset(), result, [&](int64_t, int64_t) {
      if (stop_ && stop_()) throw Leaving();
      return true;
    }));
  }

  RankedTraining& training_;
  SharedRows& rows_;
  const std::function<bool()>& stop_;
  TrainingOrder current_;
  uint64_t done_ = 0;
};

}  // namespace

std::string TrainingOrder::text() const {
  std::string out(kHeader, '\0');
  store_le(reinterpret_cast<std::byte*>(out.data()), number);
  out[kHeader - 1] = static_cast<char>(kind);
  return out + bytes;
}

TrainingOrder TrainingOrder::parse(const std::string& text) {
  const bool whole = text.size() >= kHeader && static_cast<uint8_t>(text[kHeader - 1]) <=
                                                   static_cast<uint8_t>(OrderKind::kEnd);
  if (!whole) throw Error("an order of rank 0 is damaged");
  return {.number = load_le<uint64_t>(reinterpret_cast<const std::byte*>(text.data())),
          .kind = static_cast<OrderKind>(text[kHeader - 1]),
          .bytes = text.substr(kHeader)};
}

LeadingTraining::LeadingTraining(std::unique_ptr<RankedTraining> training, SharedRows& rows)
    : training_(std::move(training)), rows_(rows) {
  training_->on_shards([this](ShardRange own) { catch_up(*training_, rows_, current_, own); });
}

LeadingTraining::~LeadingTraining() = default;

// The others get it by regrouping, where one is lost meanwhile: false.
bool LeadingTraining::order(OrderKind kind, std::string bytes) {
  current_ = {.number = current_.number + 1, .kind = kind, .bytes = std::move(bytes)};
  try {
    broadcast(training_->communicator(), kLeader, current_.text());
    if (kind == OrderKind::kRows) share_rows(*training_, rows_, training_->own_shards());
    return true;
  } catch (const RankLost& lost) {
    training_->regroup_after(lost);
    return false;
  }
}

void LeadingTraining::use_rows() { order(OrderKind::kRows); }

bool LeadingTraining::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  order(OrderKind::kTrain);
  return training_->train_epoch(data, result, on_step);
}

void LeadingTraining::restore(const Checkpoint& c) {
  order(OrderKind::kRestore, checkpoint_bytes(c));
  training_->restore(c);
}

void LeadingTraining::scale_lr(double factor) {
  order(OrderKind::kScaleRate, json_text(Json(factor)));
  training_->scale_lr(factor);
}

void LeadingTraining::reset_optimizer() {
  order(OrderKind::kResetOptimizer);
  training_->reset_optimizer();
}

RankedTraining& LeadingTraining::gathered() {
  while (!training_->gathered()) {
    if (order(OrderKind::kGather)) training_->gather();
  }
  return *training_;
}

void LeadingTraining::leave_by(OrderKind kind) {
  gathered();  // there is no asking later
  order(kind);
  leave_together(*training_);
}

void LeadingTraining::end() { leave_by(OrderKind::kEnd); }

void LeadingTraining::part() { leave_by(OrderKind::kPart); }

FollowEnd follow(RankedTraining& training, SharedRows& rows, const std::function<bool()>& stop) {
  return Follower(training, rows, stop).run();
}

}  // namespace ndtrain
