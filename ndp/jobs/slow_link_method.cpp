#include "ndp/jobs/slow_link_method.h"

#include <fmt/format.h>

#include <initializer_list>
#include <memory>
#include <utility>
#include <variant>

#include "ndp/jobs/rates_log.h"

namespace ndtrain::ndp {
namespace {

// The GradientSync is made of its own options.
template <class Sync, class Options>
SlowLinkTraining::MakeSync maker(const Options& options) {
  return [options](const Trainer::Shared& shared, Communicator& communicator,
                   std::vector<int> first_shards, std::vector<int> sites) {
    Options own = options;
    own.sites = std::move(sites);
    return std::make_unique<Sync>(shared, communicator, std::move(first_shards), own);
  };
}

using Sentences = std::vector<std::string>;

// With who is meant by "{}": a rank, or where some are of a site, a site.
Sentences said(int ranks, int sites, std::initializer_list<std::string> sentences) {
  Sentences all;
  if (sites < ranks) {
    all.push_back(
        fmt::format("{} ranks are at {} {}: those of one add up whole gradients, and the first of "
                    "them exchanges with other sites what a rank alone would",
                    ranks, sites, sites == 1 ? "site" : "sites"));
  }
  const char* const who = sites < ranks ? "site" : "rank";
  for (const std::string& s : sentences) {
    if (!s.empty()) all.push_back(fmt::format(fmt::runtime(s), fmt::arg("who", who)));
  }
  return all;
}

std::string what_is_sent(const SparseSyncOptions& sync, int sites) {
  const auto share = [sites](double drop) {
    return fmt::format("{:.3g} %", 100 * (1 - drop) / sites);
  };
  std::string what = share(sync.drop);
  std::string rest = "keeps the rest for the next step";
  if (make_compressor(sync.compressor, {})->takes_all()) {
    what = "the signs";
    rest =
        sync.compressor == "signum" ? "keeps nothing" : "keeps what they leave for the next step";
  }
  if (!sync.first_drops.empty()) {
    what += fmt::format(" ({} in the first of {} epochs that have more)",
                        share(sync.first_drops.front()), sync.first_drops.size());
  }
  if (!sync.drops.empty()) what += ", or as --drop-of says,";
  return fmt::format(
      "of each gradient a {{who}} sends {} (--compressor {}), and {}; another number of ranks "
      "gives "
      "another model",
      what,
      sync.momentum > 0      ? "dgc"
      : sync.largest_of_sums ? "gtopk"
                             : sync.compressor,
      rest);
}

SlowLinkMethod sparse_method(const SparseSyncOptions& sync, int64_t drain_every) {
  const auto what_it_does = [sync, drain_every](int ranks, int sites) {
    const std::string late = fmt::format(
        "a step computes without what the last {} have sent, which travels meanwhile; "
        "all is applied behind every {} steps of an epoch and at its end",
        sync.staleness, drain_every);
    const bool dry = sync.control && sync.control->dry_run;
    const std::string rates =
        sites == 1 ? "batches and drop stay as they were asked for while there is one site alone"
                   : fmt::format("batches and drop follow what ranks and links take{}: {}",
                                 dry ? ", but for a dry run only in the log" : "", kRatesLog);
    return said(
        ranks, sites,
        {what_is_sent(sync, sites), sync.staleness > 0 ? late : "", sync.control ? rates : ""});
  };
  return {.name = "sparse",
          .make = maker<SparseSync>(sync),
          .drain_every = drain_every,
          .route = sync.route,
          .what_it_does = what_it_does};
}

// `name`: local or diloco.
SlowLinkMethod local_method(std::string name, const LocalStepsOptions& options,
                            int64_t drain_every) {
  const auto what_it_does = [options, drain_every](int ranks, int sites) {
    const std::string steps = fmt::format(
        "each {{who}} takes {} steps by itself between agreements, fewer where an "
        "epoch ends sooner, and all agree behind every {} steps of an epoch and at its "
        "end; another number of ranks gives another model",
        options.inner_steps, drain_every);
    const std::string parts =
        fmt::format("the parameters agree in {} parts, one after the other", options.fragments);
    const std::string part = fmt::format(
        "of what a {{who}} has learnt since they agreed it sends a part (--compressor "
        "{}), and keeps the rest for the next time",
        options.compressor);
    const std::string travels = fmt::format(
        "what they agree on travels under {} steps; what a {{who}} has learnt "
        "meanwhile makes up {:.3g} of what it goes on from",
        options.overlap, options.mixing);
    return said(ranks, sites,
                {steps, options.fragments > 1 ? parts : "", options.compressor.empty() ? "" : part,
                 options.overlap > 0 ? travels : ""});
  };
  return {.name = std::move(name),
          .make = maker<LocalSteps>(options),
          .drain_every = drain_every,
          .route = options.route,
          .what_it_does = what_it_does};
}

SlowLinkMethod power_sgd_method(const PowerSgdOptions& options) {
  const auto what_it_does = [columns = options.rank](int ranks, int sites) {
    return said(ranks, sites,
                {fmt::format("gradients travel as products of matrices with {} columns "
                             "(--factor-rank), and a {{who}} keeps what they leave for the next "
                             "step; another number of ranks gives another model",
                             columns)});
  };
  return {.name = "powersgd", .make = maker<PowerSgd>(options), .what_it_does = what_it_does};
}

}  // namespace

SlowLinkMethod method_of(const ExchangeMethod& method) {
  if (const auto* sparse = std::get_if<SparseSyncOptions>(&method.options)) {
    return sparse_method(*sparse, method.drain_every);
  }
  if (const auto* local = std::get_if<LocalStepsOptions>(&method.options)) {
    return local_method(method.sync, *local, method.drain_every);
  }
  return power_sgd_method(std::get<PowerSgdOptions>(method.options));
}

}  // namespace ndtrain::ndp
