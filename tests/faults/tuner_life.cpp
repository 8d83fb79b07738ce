#include "tests/faults/tuner_life.h"

#include <algorithm>

#include "ndp/wire/numbers.h"

namespace ndtrain::faults {
namespace {

constexpr size_t kPhotos = 6;

}  // namespace

const std::vector<Digest>& some_photos() {
  static const std::vector<Digest> all = [] {
    std::vector<Digest> photos;
    for (size_t i = 0; i < kPhotos; ++i) photos.push_back(sha256(std::to_string(i)));
    std::ranges::sort(photos);
    return photos;
  }();
  return all;
}

TunerLife::TunerLife(Fs& fs, const Role& role) : fs_(fs), role_(role) {
  service_.handle({1, LinkOpened{"a host", ""}});
  wire::FromStore hello;
  hello.mutable_hello()->add_protocols(kProtocols[0]);
  hello.mutable_hello()->set_store("a");
  service_.handle({1, hello});
}

void TunerLife::play(Said& said) {
  if (said.job == 0) said.job = service_.submit(role_.job(model_));
  if (service_.job(said.job).state == JobState::kFailed) service_.resume(said.job);
  for (int round = 0; round < 20 && service_.job(said.job).open(); ++round) {
    lanes_.run();
    for (; answered_ < links_.sent.size(); ++answered_) {
      answer(wire::ToStore(links_.sent[answered_].second), said);
    }
    clock_.advance(std::chrono::seconds(11));
    service_.tick();
  }
  lanes_.run();
}

void TunerLife::say(wire::FromStore m) {
  m.set_term(me_.term);
  service_.handle({1, std::move(m)});
}

void TunerLife::answer(const wire::ToStore& m, Said& said) {
  if (m.has_job()) {
    send_inventory(m.job());
  } else if (m.has_wanted()) {
    for (const uint64_t n : unpack_numbers(m.wanted().numbers(), kPhotos, kPhotos).or_throw()) {
      asked_.insert(n);
      send_row(m.wanted(), n);
    }
  } else if (m.has_ack()) {
    said.rows.insert(chunks_.at(m.ack().chunk()));
  }
}

void TunerLife::send_inventory(const wire::Job& job) {
  wire::FromStore m;
  wire::Inventory& i = *m.mutable_inventory();
  i.set_job(job.job());
  i.add_names("cat");
  for (const Digest& d : some_photos()) {
    i.mutable_digests()->append(d.begin(), d.end());
    i.add_labels(1);
    i.mutable_sources()->push_back('\2');
    if (job.with_paths()) i.add_paths(to_hex(d) + ".jpg");
  }
  i.set_last(true);
  say(m);
}

void TunerLife::send_row(const wire::Wanted& wanted, uint64_t number) {
  wire::FromStore m;
  wire::Rows& rows = *m.mutable_rows();
  rows.set_job(wanted.job());
  rows.set_run(wanted.run());
  rows.set_chunk(chunks_.size() + 1);
  rows.set_numbers(pack_numbers(std::vector{number}));
  rows.set_rows(role_.row(number));
  rows.set_checksum(xxh3(rows.rows().data(), rows.rows().size()));
  chunks_[rows.chunk()] = number;
  say(m);
}

}  // namespace ndtrain::faults
