#include "framework/parallel/rank_trace.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>

#include "framework/core/chrome_trace.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"

namespace ndtrain {
namespace {

constexpr int kRounds = 16;

}  // namespace

std::chrono::nanoseconds clock_offset(Communicator& communicator, int other, Clock& clock) {
  const RankGroup both = {0, other};
  std::chrono::nanoseconds fastest = std::chrono::nanoseconds::max(), offset{0};
  for (int i = 0; i < kRounds; ++i) {
    const auto asked = clock.monotonic();
    broadcast(communicator, 0, "time", both);
    const std::string at = std::to_string(clock.monotonic().count());
    const std::string there = broadcast(communicator, other, at, both);
    const auto answered = clock.monotonic();
    if (answered - asked >= fastest) continue;
    int64_t ns = 0;
    std::from_chars(there.data(), there.data() + there.size(), ns);
    fastest = answered - asked;
    offset = std::chrono::nanoseconds(ns) - (asked + fastest / 2);
  }
  return offset;
}

void RankTrace::add(std::vector<TimedSync::Span> computing, std::vector<Communicator::Span> link) {
  const auto keep = [&](bool is_link, auto& span) {
    if (spans_.size() >= kMost) {
      ++left_out_;
      return;
    }
    spans_.push_back({is_link, std::move(span.name), span.begun.count(), span.ended.count()});
  };
  for (TimedSync::Span& s : computing) keep(false, s);
  for (Communicator::Span& s : link) keep(true, s);
}

std::string RankTrace::text() const {
  Json all = Json::array();
  for (const Span& s : spans_) all.push_back({s.link, s.begun_ns, s.ended_ns, s.name});
  return json_text_replacing(all);
}

std::string RankTrace::collect(Communicator& communicator, Clock& clock) {
  if (left_out_ > 0) {
    log::warn("the trace has the first {} spans of a rank; {} are left out", kMost, left_out_);
  }
  if (const int rank = communicator.rank(); rank != 0) {
    clock_offset(communicator, rank, clock);
    broadcast(communicator, rank, text(), {0, rank});
    return "";
  }
  const RankGroup members = communicator.members();
  std::vector<std::pair<int64_t, Json>> ranks = {{0, parse_json(text())}};  // offset, spans
  for (const int r : std::span(members).subspan(1)) {
    const int64_t offset = clock_offset(communicator, r, clock).count();
    ranks.emplace_back(offset, parse_json(broadcast(communicator, r, "", {0, r})));
  }
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const auto& [offset, spans] : ranks) {
    for (const Json& s : spans) first = std::min(first, s[1].get<int64_t>() - offset);
  }
  ChromeTrace trace;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const std::string process = "rank " + std::to_string(members[r]);
    trace.row(process, process + " computing");
    trace.row(process, process + " link");
    for (const Json& s : ranks[r].second) {
      const int64_t begun = s[1].get<int64_t>(), ended = s[2].get<int64_t>();
      trace.span(process, process + (s[0].get<bool>() ? " link" : " computing"),
                 s[3].get<std::string>(),
                 static_cast<double>(begun - ranks[r].first - first) * 1e-9,
                 static_cast<double>(ended - begun) * 1e-9);
    }
  }
  return trace.json();
}

}  // namespace ndtrain
