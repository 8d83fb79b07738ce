// Bytes of each site to all others, by messages: apart from collectives, which stand in one line,
// and in pieces that give way to all else (CommOp::bulk), so that what is urgent waits for the one
// that leaves just then, and for what the system's socket has taken.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/sparse/sync/link_rate.h"
#include "framework/sparse/sync/sites.h"

namespace ndtrain {

// Which way these take. As many bytes leave and reach each site either way.
enum class GatherRoute : uint8_t {
  kDirect,  // from each site to each other one
  kRing     // from each to the next one, which passes on what is of others, piece by piece
};
GatherRoute gather_route_named(const std::string& name);  // direct, ring; throws Error
const char* name_of(GatherRoute route);

// All ranks make the same calls, by one thread each; those of a site give the same bytes, of which
// the leader's travel, and it tells the others what comes from other sites. Keeps a reference.
class MessageGather {
 public:
  static constexpr size_t kPiece = size_t{64} << 10;  // bytes
  static constexpr int kLanes = 4;

  // By messages of so many lanes (comm_op.h) from this one on, which are for this alone.
  MessageGather(Communicator& communicator, const Sites& sites, int lane,
                GatherRoute route = GatherRoute::kDirect);
  ~MessageGather();

  // What this rank gives is under way from here on; end() is what each site gives, in their order,
  // of the oldest begin() that has not ended. It waits. Throws RankLost; Error where another site
  // announces more than `most` bytes, for which the communicator is left. Who does not come to the
  // end() of a begin() leaves the communicator before this object ends.
  void begin(std::string ours, uint64_t most);
  std::vector<std::string> end();
  // One after the other.
  std::vector<std::string> gather(std::string ours, uint64_t most);

  // Between sites, of the calls so far; 0 where this rank does not lead.
  double send_mbps() const { return send_.mbps(); }
  double receive_mbps() const { return receive_.mbps(); }

 private:
  struct Pieces;
  struct Call;
  CommOp message(int from, int to, std::span<float> data, int lane) const;
  Communicator::Op begin(CommOp op) const;
  void begin_piece(int from, int to, std::span<float> piece, Pieces& pieces, int lane) const;
  void begin_pieces(int from, int to, std::span<float> words, Pieces& pieces, int lane) const;
  void expect_sites(Call& c) const;
  void pass_on(Call& c);

  RankGroup others_of_site() const;

  Communicator& communicator_;
  const Sites sites_;
  const int lane_;
  const GatherRoute route_;
  std::deque<std::unique_ptr<Call>> calls_;       // that have not ended
  std::vector<LinkRate::Piece> sent_, received_;  // of calls that were under way together
  LinkRate send_, receive_;
};

}  // namespace ndtrain
