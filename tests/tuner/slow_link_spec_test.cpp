// Exchanges over slow links in a job's JSON: what there is, and what is refused how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/json.h"
#include "framework/core/limits.h"
#include "framework/sparse/control/convergence_profile.h"
#include "ndp/jobs/slow_link_method.h"
#include "tuner/jobs/job_spec.h"
#include "tuner/jobs/slow_link_job.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;

JobSpec spec_of(const std::string& more) {
  const std::string tuners = more.find("\"tuners\"") == std::string::npos ? "\"tuners\":2," : "";
  return parse_job_spec("{\"model\":\"" + std::string(64, 'a') + "\"," + tuners + more + "}");
}

std::string refused(const std::string& more) {
  try {
    (void)spec_of(more);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// The text of a profile whose largest batch has 16 rows, as a JSON string.
std::string profile(const std::string& largest = "16") {
  return "\"ndtrain-convergence-1\\nmodel net\\nover drop\\nreference_batch 4\\nreference_drop "
         "0.9\\nlargest_batch " +
         largest + "\\npoint 0.5 0.9 0.01\\npoint 1 0.99 0.02\\n\"";
}

// Of a job with a controller, and more.
std::string controlled(const std::string& more, const std::string& convergence = profile()) {
  return R"("sync":"sparse","controller":true,"batch":8,"convergence":)" + convergence + more;
}

SlowLinkChoice choice_of(const JobSpec& s) { return slow_link_of(s); }

TEST(SlowLinkSpec, GoesThroughItsJsonWithAllItsKeys) {
  for (
      const char* more :
      {R"("sync":"sparse","compressor":"topk","drop":0.999,"drop_of":["fc.weight=0.5","a*=0"],)"
       R"("scan":"rotate","all_gather":"ring","pieces":true,"wire_dtype":"int8","staleness":1,"drain_every":7,)"
       R"("opt":"sgd","sparse_momentum":"lazy","verify":3)",
       R"("sync":"local","inner_steps":20,"fragments":4,"overlap":5,"mixing":0.25)",
       R"("sync":"diloco","outer_lr":0.5,"outer_momentum":0.8,"compressor":"topk","drop":0.9)",
       R"("sync":"powersgd","factor_rank":8,"wire_dtype":"bf16")"}) {
    const JobSpec s = spec_of(more);
    const Json written = parse_json(s.text()), asked = parse_json(std::string("{") + more + "}");
    for (const auto& [key, value] : asked.items()) EXPECT_EQ(written.at(key), value) << key;
    EXPECT_EQ(parse_job_spec(s.text()).text(), s.text());
    EXPECT_EQ(choice_of(s).method.sync, s.sync);
  }
}

TEST(SlowLinkSpec, IsSaidOnlyWhereItIsAskedFor) {
  const Json plain = parse_json(spec_of("\"sync\":\"auto\"").text());
  const Json sparse = parse_json(spec_of("\"sync\":\"sparse\"").text());
  for (const char* key :
       {"compressor", "drop", "drop_of", "scan", "all_gather", "pieces", "wire_dtype", "staleness",
        "drain_every", "sparse_momentum", "verify", "inner_steps", "fragments", "overlap", "mixing",
        "outer_lr", "outer_momentum", "factor_rank"}) {
    EXPECT_FALSE(plain.contains(key)) << "an earlier Tuner takes it";
    EXPECT_FALSE(sparse.contains(key)) << key;
  }
}

TEST(SlowLinkSpec, IsWhatNdtrainTrainMakesOfIt) {
  const SlowLinkChoice deep = choice_of(
      spec_of(R"("sync":"sparse","compressor":"dgc","opt":"sgd","momentum":0.9,"verify":5)"));
  EXPECT_TRUE(deep.optimizer_without_momentum());
  EXPECT_EQ(deep.verify_every, 5);
  EXPECT_THAT(method_of(deep.method).what_it_does(2, 2).at(0), HasSubstr("--compressor dgc"));
  const SlowLinkChoice sparse = choice_of(spec_of(R"("sync":"sparse","staleness":2)"));
  EXPECT_FALSE(sparse.optimizer_without_momentum());
  EXPECT_EQ(sparse.method.drain_every, 100);
  EXPECT_THAT(method_of(sparse.method).what_it_does(2, 2).at(0), HasSubstr("sends 0.5 %"));
  EXPECT_THAT(method_of(sparse.method).what_it_does(2, 2).at(0), HasSubstr("another number of"));
  EXPECT_EQ(choice_of(spec_of(R"("sync":"local","inner_steps":30)")).method.drain_every, 120);
  EXPECT_EQ(choice_of(spec_of(R"("sync":"diloco","drain_every":7)")).method.drain_every, 7);
}

struct Refusal {
  const char *more, *why;
};

TEST(SlowLinkSpec, ValuesOutOfRangeAreRefusedByName) {
  const std::vector<Refusal> all = {
      {R"("sync":"sparse","drop":1)", "job: drop 1: 0 to below 1"},
      {R"("sync":"sparse","drop":-0.5)", "job: drop -0.5: 0 to below 1"},
      {R"("sync":"sparse","compressor":"best")", "job: compressor best: there are"},
      {R"("sync":"sparse","compressor":"best")", "gtopk and dgc"},
      {R"("sync":"sparse","drop_of":["fc=2"])", "job: drop_of fc=2: a parameter's name"},
      {R"("sync":"sparse","drop_of":"fc=0")", "job: drop_of \"fc=0\" is of the wrong kind"},
      {R"("sync":"sparse","scan":"last")", "job: scan last: there are first and rotate"},
      {R"("sync":"sparse","all_gather":"star")", "job: all_gather star: there are direct and ring"},
      {R"("sync":"local","all_gather":"ring")",
       "what Tuners have learnt is added up as it travels"},
      {R"("sync":"sparse","staleness":17)", "job: staleness 17: 0 to 16"},
      {R"("sync":"sparse","staleness":1,"drain_every":0)", "job: drain_every 0: 1 to"},
      {R"("sync":"sparse","wire_dtype":"f8")", "job: wire_dtype f8: "},
      {R"("sync":"sparse","sparse_momentum":"some")", "there are touched, lazy and catch-up"},
      {R"("sync":"sparse","verify":0)", "job: verify 0: 1 to"},
      {R"("sync":"local","inner_steps":0)", "job: inner_steps 0: 1 to 1000000"},
      {R"("sync":"local","inner_steps":5,"fragments":6)", "job: fragments 6: 1 to 5"},
      {R"("sync":"local","inner_steps":5,"overlap":5)", "job: overlap 5: 0 to 4"},
      {R"("sync":"local","overlap":1,"mixing":1)", "job: mixing 1: 0 to below 1"},
      {R"("sync":"diloco","outer_lr":0)", "job: outer_lr 0: above 0"},
      {R"("sync":"diloco","outer_momentum":1)", "job: outer_momentum 1: 0 to below 1"},
      {R"("sync":"powersgd","factor_rank":65)", "job: factor_rank 65: 1 to 64"},
      {R"("sync":"powersgd","wire_dtype":"int4")", "there are f32, f16 and bf16"}};
  for (const auto& [more, why] : all) EXPECT_THAT(refused(more), HasSubstr(why)) << more;
}

TEST(SlowLinkSpec, WhatDoesNotGoTogetherIsRefusedWithTheRemedy) {
  const std::vector<Refusal> all = {
      {R"("drop":0.9)", "job: drop 0.9 with sync ddp: it is of sync sparse, local, diloco"},
      {R"("sync":"local","staleness":1)",
       "job: staleness 1 with sync local: it is of sync sparse; overlap hides what travels"},
      {R"("sync":"powersgd","drain_every":1)", "nothing is under way"},
      {R"("sync":"sparse","factor_rank":2)", "it is of sync powersgd; take"},
      {R"("sync":"local","outer_lr":0.5)", "it is of sync diloco; take one of these, or leave it"},
      {R"("sync":"sparse","drain_every":9)", "without staleness nothing is under way"},
      {R"("sync":"sparse","clip_norm":1)", "job: clip_norm 1 with sync sparse"},
      {R"("sync":"sparse","lr_of":["fc.*=2"])", "job: lr_of with sync sparse"},
      {R"("sync":"sparse","layer_decay":0.5)", "job: layer_decay 0.5 with sync sparse"},
      {R"("sync":"local","ema":0.9)", "job: ema 0.9 with sync local"},
      {R"("sync":"sparse","compressor":"signum","drop":0.5)", "job: drop with compressor signum"},
      {R"("sync":"sparse","compressor":"signum","pieces":true)", "signs are of all elements"},
      {R"("sync":"sparse","compressor":"dgc")", "take opt sgd without nesterov"},
      {R"("sync":"sparse","compressor":"dgc","opt":"sgd","momentum":0)", "dgc with momentum 0"},
      {R"("sync":"sparse","sparse_momentum":"lazy","opt":"adam")", "it is of opt sgd"},
      {R"("sync":"sparse","sparse_momentum":"catch-up","opt":"sgd","sched":"cosine")",
       "take sched constant"},
      {R"("sync":"local","compute":"f16")", "job: compute f16 with sync local"},
      {R"("sync":"local","drop":0.5)", "without compressor all of what Tuners have learnt travels"},
      {R"("sync":"local","mixing":0.5)", "job: mixing 0.5 without overlap"},
      {R"("sync":"sparse","parallel":"pipeline")", "with parallel pipeline: it is of Tuners that"},
      {R"("sync":"sparse","tuners":1)", "job: sync sparse: it is between Tuners; take tuners 2"}};
  for (const auto& [more, why] : all) EXPECT_THAT(refused(more), HasSubstr(why)) << more;
}

TEST(SlowLinkSpec, OfAControllerGoesThroughItsJson) {
  const JobSpec s = spec_of(controlled(R"(,"largest_batch":9,"dry_run":true)"));
  const Json written = parse_json(s.text());
  EXPECT_EQ(written.at("controller"), true);
  EXPECT_EQ(written.at("largest_batch"), 9);
  EXPECT_EQ(written.at("dry_run"), true);
  EXPECT_EQ(written.at("convergence"), parse_json(profile()));
  EXPECT_EQ(parse_job_spec(s.text()).text(), s.text());
  EXPECT_THAT(method_of(choice_of(s).method).what_it_does(2, 2).back(),
              HasSubstr("for a dry run only"));
  EXPECT_THAT(method_of(choice_of(spec_of(controlled(""))).method).what_it_does(3, 2).back(),
              HasSubstr("batches and drop follow what ranks and links take: rates.log"));
  EXPECT_THAT(method_of(choice_of(spec_of(controlled(""))).method).what_it_does(2, 1).back(),
              HasSubstr("while there is one site alone"));
  const Json plain = parse_json(spec_of("\"sync\":\"sparse\"").text());
  for (const char* key : {"controller", "convergence", "largest_batch", "dry_run"}) {
    EXPECT_FALSE(plain.contains(key)) << key;
  }
}

TEST(SlowLinkSpec, OfAControllerThatCannotBeIsRefusedWithTheRemedy) {
  const std::vector<std::pair<std::string, const char*>> all = {
      {R"("sync":"sparse","controller":true)", "job: controller without convergence: it goes by"},
      {R"("sync":"sparse","controller":"yes")", "job: controller \"yes\" is of the wrong kind"},
      {R"("sync":"sparse","convergence":)" + profile(), "job: convergence without controller"},
      {R"("sync":"sparse","largest_batch":4)", "job: largest_batch without controller"},
      {R"("sync":"ddp","controller":true)", "job: controller with sync ddp: it is of sync spar"},
      {R"("sync":"diloco","convergence":)" + profile(),
       "job: convergence ndtrain-convergence-1 with sync diloco: it is of"},
      {R"("dry_run":true)", "of a fine-tuning with controller"},
      {R"("sync":"sparse","dry_run":true)", "of a fine-tuning with controller"},
      {controlled(R"(,"tuners":1)"), "job: sync sparse: it is between Tuners; take tuners 2"},
      {controlled(R"(,"largest_batch":17)"), "job: largest_batch 17: 1 to 16"},
      {controlled(R"(,"largest_batch":0)"), "job: largest_batch 0: 1 to 16"},
      {controlled(R"(,"compressor":"efsignum")"), "job: controller with compressor efsignum"},
      {controlled(R"(,"compressor":"dgc","opt":"sgd")"), "job: controller with compressor dgc"},
      {controlled(R"(,"sparse_momentum":"catch-up","opt":"sgd","sched":"constant")"),
       "job: controller with sparse_momentum catch-up"},
      {controlled("", profile("7")), "job: batch 8: the convergence profile knows of 7 rows"},
      {controlled("", "\"something else\""), "job: convergence, line 1: "},
      {controlled("", profile("many")), "job: convergence, line 6: "},
      {controlled("", "\"ndtrain-convergence-1\\nmodel net\\n\""), "job: convergence: "}};
  for (const auto& [more, why] : all) EXPECT_THAT(refused(more), HasSubstr(why)) << more;
  // As long as a job may be.
  EXPECT_THAT(refused(controlled("", "\"" + std::string(limits::kConvergenceText, '#') + "\"")),
              HasSubstr("job: JSON of "));
}

TEST(SlowLinkSpec, OfAJobThatHasBegunItStaysAsItIs) {
  const JobSpec sparse = spec_of(R"("sync":"sparse","shards":4)");
  EXPECT_EQ(changed(sparse, R"({"tuners":3})").tuners, 3);
  const auto refusal = [](const JobSpec& of, const char* changes) {
    try {
      (void)changed(of, changes);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(sparse, R"({"sync":"ddp"})"), HasSubstr("was begun with sparse"));
  EXPECT_THAT(refusal(spec_of(R"("sync":"auto")"), R"({"sync":"local"})"),
              HasSubstr("job: sync local: the job was begun with auto"));
  EXPECT_THAT(refusal(spec_of(controlled("")), R"({"controller":false})"),
              HasSubstr("job: controller cannot change any more"));
  EXPECT_THAT(refusal(sparse, R"({"drop":0.5})"), HasSubstr("job: drop cannot change any more"));
}

}  // namespace
}  // namespace ndtrain::tuner
