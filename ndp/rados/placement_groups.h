// Which placement group of a pool an object is in: as Ceph computes it for pools whose object_hash
// is rjenkins, which all pools have had since 2010. Groups are numbered from 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ndtrain::ndp {

// Bob Jenkins' hash of 1996 ("lookup2"), from 0.
uint32_t rjenkins(std::string_view bytes);

// The number of an object in `groups` of its pool. Where that is no power of two, numbers that
// would be beyond it are those of half the next one.
uint32_t placement_group(std::string_view nspace, std::string_view name, uint32_t groups);

// For each group the name of some object that would be in it, in the namespace "": what monitors
// are asked about a group by.
std::vector<std::string> names_of_groups(uint32_t groups);

// A listing of a pool is in the order of the hashes' reversed bits. Cut into so many slices of the
// same size, each is of one group, and these are the ones of `group`; one or two.
uint32_t listing_slices(uint32_t groups);
std::vector<uint32_t> slices_of_group(uint32_t group, uint32_t groups);

}  // namespace ndtrain::ndp
