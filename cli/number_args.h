// Numbers and lists of them, as flags have them. All throw UsageError naming the flag.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ndtrain::cli {

class Args;

int64_t integer_in(const Args& args, const std::string& flag, int64_t least, int64_t most);

// "20M", "20Mbit", "2.5 Gbit/s", "64000": bits per second, in steps of 1000. As bytes per second.
double parse_bandwidth(const std::string& flag, const std::string& text);

// "12h", "90d", "4w" as seconds.
int64_t parse_duration(const std::string& flag, const std::string& text);

// Between commas.
std::vector<std::string> parts_of(const std::string& text);

double parse_finite(const std::string& flag, const std::string& text);
double parse_positive(const std::string& flag, const std::string& text);

// "1,2,4" and "1-8", up to `most`.
std::vector<int> parse_counts(const std::string& flag, const std::string& text, int most);

}  // namespace ndtrain::cli
