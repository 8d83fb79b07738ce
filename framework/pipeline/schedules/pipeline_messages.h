// The messages of a pipeline in virtual time: which are sent, when they arrive, who waits for whom.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "framework/pipeline/schedules/simulate_pipeline.h"

namespace ndtrain {

class PipelineMessages {
 public:
  // `first_row`: of each rank, and the end of the last one's. Buffers as simulate_pipeline().
  PipelineMessages(const PipeShape& shape, const PipelineCosts& costs,
                   std::span<const int64_t> buffers, std::vector<int> first_row);

  // What became of a send or a receive that a row of PipelinePrediction came to at `now_s`.
  struct Outcome {
    double end_s = 0;
    int waits_for = -1;  // a row that has to go on first; nothing was done
  };
  // Throws Error where there is no such edge, and where the message that is there is another one's.
  Outcome send(int row, const Instruction& i, double now_s);
  Outcome receive(int row, const Instruction& i, double now_s);
  // Throws Error where one is not.
  void expect_all_received() const;

 private:
  struct Message {
    Instruction sent;
    double arrival_s = 0;
  };
  struct Channel {         // between two replicas
    int from = 0, to = 0;  // rows
    double transfer_s = 0, latency_s = 0;
    std::vector<Message> messages;
    std::vector<double> received_s;  // when; as many as were
  };
  struct Lane {  // one way of an edge
    size_t buffer = 0;
    std::vector<Channel> channels;
  };

  Lane& lane_of(const Instruction& i);

  const std::vector<int> first_row_;
  std::map<std::pair<int, int>, Lane> lanes_;  // by the stages from and to
  std::vector<double> free_s_;                 // of each pair of rows, one way
};

}  // namespace ndtrain
