#include "framework/sparse/sync/sites.h"

#include <algorithm>
#include <map>

#include "framework/parallel/between_ranks.h"

namespace ndtrain {

Sites::Sites(const Communicator& communicator, const std::vector<int>& of_ranks) {
  if (!of_ranks.empty() && std::ssize(of_ranks) != communicator.ranks()) {
    throw Error("sites of ", of_ranks.size(), " ranks, but there are ", communicator.ranks());
  }
  const auto site_of = [&](int r) {
    return of_ranks.empty() ? r : of_ranks[static_cast<size_t>(r)];
  };
  const int here = communicator.rank();
  std::map<int, int> sizes;
  for (const int r : communicator.members()) {
    if (sizes[site_of(r)]++ == 0) {
      leaders_.push_back(r);
    } else {
      has_groups_ = true;
    }
    if (site_of(r) == site_of(here)) members_.push_back(r);
  }
  leads_ = leader() == here;
  place_ = static_cast<int>(std::ranges::find(leaders_, leader()) - leaders_.begin());
}

std::vector<int> sites_of_ranks(Communicator& communicator, const std::string& name) {
  const RankGroup members = communicator.members();
  const std::vector<std::string> names = gather(communicator, name);
  std::vector<int> sites(static_cast<size_t>(communicator.ranks()), 0);
  std::map<std::string, int> first;
  for (size_t i = 0; i < members.size(); ++i) {
    const int own = members[i];
    sites[static_cast<size_t>(own)] =
        names[i].empty() ? own : first.emplace(names[i], own).first->second;
  }
  return sites;
}

}  // namespace ndtrain
