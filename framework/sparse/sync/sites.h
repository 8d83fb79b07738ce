// Ranks in several places: those of a site are near each other, sites are far apart, so that one
// rank of each talks to the other sites.
#pragma once

#include <string>
#include <vector>

#include "framework/comm/communicator.h"

namespace ndtrain {

// Of a communicator's members.
class Sites {
 public:
  // Rank r of the run is of site `of_ranks[r]`; none: each rank is a site by itself. Throws Error
  // where these are not as many as the ranks.
  explicit Sites(const Communicator& communicator, const std::vector<int>& of_ranks = {});

  // The first member of each, rising: the others hear of a site through it.
  const RankGroup& leaders() const { return leaders_; }
  int count() const { return static_cast<int>(leaders_.size()); }
  int place() const { return place_; }                   // of this rank's, in leaders()
  const RankGroup& members() const { return members_; }  // of this rank's
  int leader() const { return members_.front(); }        // of this rank's
  bool leads() const { return leads_; }                  // this rank
  bool has_groups() const { return has_groups_; }        // some site has several ranks

 private:
  RankGroup leaders_, members_;
  int place_ = 0;
  bool leads_ = true, has_groups_ = false;
};

// As Sites takes them, of ranks that each say where they are; who gives no name is a site by
// itself. Collective.
std::vector<int> sites_of_ranks(Communicator& communicator, const std::string& name);

}  // namespace ndtrain
