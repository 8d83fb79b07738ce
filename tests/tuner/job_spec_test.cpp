#include "tuner/jobs/job_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/status.h"

namespace ndtrain::tuner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JobSpec parsed(const std::string& more, const std::string& model = std::string(64, 'a')) {
  return parse_job_spec("{\"model\":\"" + model + "\"" + more + "}");
}

std::string refusal(const std::string& more, const std::string& model = std::string(64, 'a')) {
  try {
    (void)parsed(more, model);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(JobSpecPrecision, IsKeptAndSaidOnlyWhereItIsAskedFor) {
  const JobSpec s = parsed(R"(,"precision":"int8","max_drop":1.5)");
  EXPECT_EQ(s.precision, "int8");
  EXPECT_EQ(parse_job_spec(s.text()).max_drop, 1.5);
  EXPECT_EQ(parse_job_spec(s.text()).precision, "int8");
  EXPECT_EQ(parsed("").precision, "");
  EXPECT_THAT(parsed("").text(), Not(HasSubstr("max_drop")));
}

TEST(JobSpecPrecision, IsRefusedWhereNothingCanComeOfIt) {
  EXPECT_THAT(refusal(R"(,"precision":"f8")"), HasSubstr("f32, bf16, f16, int8 and auto"));
  EXPECT_THAT(refusal(R"(,"precision":"bf16","max_drop":-1)"), HasSubstr("max_drop -1"));
  EXPECT_EQ(refusal(R"(,"precision":"bf16","mode":"ideal","photos":"x")"), "");
  EXPECT_THAT(refusal(R"(,"kind":"relabel","precision":"bf16")", ""), HasSubstr("give a model"));
  EXPECT_EQ(refusal(R"(,"kind":"relabel","precision":"auto")"), "");
}

// An earlier Tuner knows no task of a fine-tuning.
TEST(JobSpecTask, IsSaidOfAFineTuningWhereItIsNotTheDefaultOne) {
  EXPECT_THAT(parsed("").text(), Not(HasSubstr("task")));
  EXPECT_THAT(parsed("").text(), Not(HasSubstr("collection")));
  EXPECT_TRUE(parsed("").takes_labels_of_holders());
  const JobSpec s = parsed(R"(,"task":"blur","collection":"attic")");
  EXPECT_EQ(parse_job_spec(s.text()).task, "blur");
  EXPECT_EQ(parse_job_spec(s.text()).collection, "attic");
  EXPECT_FALSE(parsed(R"(,"task":"blur")").takes_labels_of_holders());
  EXPECT_TRUE(parsed(R"(,"collection":"attic")").takes_labels_of_holders());
  EXPECT_TRUE(parsed(R"(,"task":"blur","mode":"ideal","photos":"x")").takes_labels_of_holders());
}

TEST(JobSpecKind, KeysOfAnotherKindAreRefusedByName) {
  const auto of = [](const std::string& kind, const std::string& more) {
    return refusal(R"(,"kind":")" + kind + R"(",)" + more);
  };
  for (const char* key : {"epochs", "promote", "augment", "tuners", "memory"}) {
    for (const char* kind : {"relabel", "eval", "refine"}) {
      EXPECT_THAT(of(kind, '"' + std::string(key) + R"(":1)"),
                  HasSubstr("unknown key '" + std::string(key) + "' of kind " + kind));
    }
  }
  EXPECT_THAT(of("finetune", R"("top_k":3)"), HasSubstr("unknown key 'top_k' of kind finetune"));
  EXPECT_THAT(of("finetune", R"("only":"missing")"), HasSubstr("unknown key 'only'"));
}

TEST(JobSpecKind, AnEvaluationIsOfAllPhotosAndChangesNothing) {
  EXPECT_EQ(refusal(R"(,"kind":"eval","only":"all","dry_run":false,"top_k":3)"), "");
  EXPECT_THAT(refusal(R"(,"kind":"eval","dry_run":true)"), HasSubstr("dry_run true: of kind eval"));
  EXPECT_THAT(refusal(R"(,"kind":"eval","only":"stale")"), HasSubstr("only stale: of kind eval"));
}

TEST(JobSpecKind, ARefinementGoesByTheVersionInForce) {
  const std::string text = R"({"kind":"refine","dry_run":true,"task":"blur"})";
  const JobSpec spec = parse_job_spec(parse_job_spec(text).text());
  EXPECT_EQ(spec.kind, JobKind::kRefine);
  EXPECT_TRUE(spec.dry_run);
  EXPECT_EQ(spec.task, "blur");
  EXPECT_THAT(refusal(R"(,"kind":"refine","top_k":3)"), HasSubstr("unknown key 'top_k' of kind"));
  EXPECT_THAT(refusal(R"(,"kind":"refine")"),
              HasSubstr("features of the version in force; leave it away"));
  EXPECT_THAT(refusal(R"(,"kind":"refine","precision":"bf16")", ""), HasSubstr("precision"));
}

TEST(JobSpecTask, IsAName) {
  const auto named = [](size_t bytes) {
    return refusal(R"(,"task":")" + std::string(bytes, 'x') + R"(")");
  };
  EXPECT_THAT(refusal(R"(,"task":"")"), HasSubstr("task '': from 1 to 256 bytes"));
  EXPECT_EQ(named(255), "");
  EXPECT_EQ(named(256), "");
  EXPECT_THAT(named(257), HasSubstr("from 1 to 256 bytes"));
  EXPECT_THAT(refusal(R"(,"collection":"a\nb")"), HasSubstr("without control characters"));
}

TEST(JobSpecNumbers, WhatIsCountedIsAWholeNumber) {
  EXPECT_THAT(refusal(R"(,"epochs":2.5)"), HasSubstr("job: epochs 2.5 is no whole number"));
  EXPECT_EQ(parsed(R"(,"epochs":2.0)").trainer.epochs, 2);
  EXPECT_EQ(parsed(R"(,"lost_after":2.5)").lost_after, 2.5);
}

TEST(JobSpecCompute, IsSaidOnlyWhereItIsNotF32AndNamesWhatThereIs) {
  EXPECT_EQ(parsed(R"(,"compute":"bf16")").trainer.compute, DType::kBF16);
  EXPECT_EQ(parse_job_spec(parsed(R"(,"compute":"f16")").text()).trainer.compute, DType::kF16);
  EXPECT_THAT(parsed(R"(,"compute":"f32")").text(), Not(HasSubstr("compute")))
      << "an earlier Tuner takes it";
  EXPECT_THAT(refusal(R"(,"compute":"f8")"), HasSubstr("compute 'f8': there are f32, bf16, f16"));
}

TEST(JobSpecOptimizer, VariantsAreSaidOnlyWhereTheyAreAskedFor) {
  const auto optimizer = [](const std::string& more) {
    return parse_job_spec(parsed(more).text()).trainer.optimizer;
  };
  EXPECT_EQ(optimizer(R"(,"opt":"sgd","dampening":0.25)").dampening, 0.25);
  EXPECT_TRUE(optimizer(R"(,"opt":"sgd","nesterov":true)").nesterov);
  const OptimizerConfig rms = optimizer(R"(,"opt":"rmsprop","alpha":0.5,"centered":true)");
  EXPECT_EQ(rms.kind, OptimizerConfig::Kind::kRmsProp);
  EXPECT_EQ(rms.alpha, 0.5);
  EXPECT_TRUE(rms.centered);
  EXPECT_TRUE(optimizer(R"(,"opt":"adamw","amsgrad":true)").amsgrad);
  const OptimizerConfig adam = optimizer(R"(,"opt":"adam","beta1":0.5,"beta2":0.75,"epsilon":0.1)");
  EXPECT_EQ(adam.beta1, 0.5);
  EXPECT_EQ(adam.beta2, 0.75);
  EXPECT_EQ(adam.epsilon, 0.1);
  EXPECT_THAT(refusal(R"(,"beta2":1)"), HasSubstr("job: beta 1: from 0 to below 1"));
  EXPECT_EQ(optimizer(R"(,"clip_norm":2.5)").clip_norm, 2.5);
  EXPECT_THAT(refusal(R"(,"clip_norm":-1)"), HasSubstr("job: clip_norm -1"));
  EXPECT_EQ(optimizer(R"(,"ema":0.75)").ema, 0.75);
  EXPECT_THAT(refusal(R"(,"ema":1)"), HasSubstr("job: ema 1"));
  EXPECT_EQ(optimizer(R"(,"layer_decay":0.75)").layer_decay, 0.75);
  EXPECT_THAT(refusal(R"(,"layer_decay":0)"), HasSubstr("job: layer decay 0: above 0, to 1"));
  const std::vector<std::pair<std::string, double>> rates = {{"fc.*", 0.1}, {"a=b", 2}};
  EXPECT_EQ(optimizer(R"(,"lr_of":["fc.*=0.1","a=b=2"])").lr_of, rates);
  EXPECT_THAT(refusal(R"(,"lr_of":["fc"])"), HasSubstr("job: lr_of fc: a parameter's name"));
  EXPECT_THAT(refusal(R"(,"lr_of":["fc=-2"])"), HasSubstr("job: learning rate of 'fc' times -2"));
  EXPECT_THAT(refusal(R"(,"lr_of":"fc=2")"), HasSubstr("lr_of \"fc=2\" is of the wrong kind"));
  for (const char* key : {"ema", "layer_decay", "lr_of", "dampening", "nesterov", "alpha", "beta1",
                          "beta2", "epsilon", "centered", "amsgrad", "clip_norm", "accumulate"}) {
    EXPECT_THAT(parsed("").text(), Not(HasSubstr(key))) << "an earlier Tuner takes it";
  }
  EXPECT_THAT(refusal(R"(,"opt":"sgd","amsgrad":true)"),
              HasSubstr("job: amsgrad is of adam and adamw"));
}

TEST(JobSpecAugment, IsMixupOfFeatures) {
  EXPECT_EQ(parse_job_spec(parsed(R"(,"augment":"mixup=0.4")").text()).augmentation,
            ndp::Augmentation{.mixup = 0.4});
  EXPECT_THAT(parsed("").text(), Not(HasSubstr("augment"))) << "an earlier Tuner takes it";
  EXPECT_THAT(refusal(R"(,"augment":"crop,mixup=1")"),
              HasSubstr("job: --augment crop,mixup=1: a part of the model is frozen"));
  EXPECT_THAT(refusal(R"(,"augment":"mixup")"), HasSubstr("job: augment mixup: mixup: say"));
  EXPECT_EQ(parsed(R"(,"augment":"mixup=1","tuners":2)").augmentation.mixup, 1);
  EXPECT_THAT(refusal(R"(,"augment":"mixup=1","tuners":2,"parallel":"pipeline")"),
              HasSubstr("job: augment mixup=1 with parallel pipeline: photos are drawn and mixed "
                        "within a shard"));
}

TEST(JobSpecAugment, ChangesPixelsInViews) {
  const JobSpec s = parse_job_spec(parsed(R"(,"augment":"crop,mixup=1","views":4)").text());
  EXPECT_EQ(s.views, 4);
  EXPECT_TRUE(s.augmentation.crop);
  EXPECT_THAT(parsed("").text(), Not(HasSubstr("views"))) << "an earlier Tuner takes it";
  EXPECT_EQ(parsed(R"(,"augment":"flip","views":32)").views, 32);
  EXPECT_THAT(refusal(R"(,"augment":"flip","views":33)"),
              HasSubstr("job: views 33: from 0, the photos as they are, to 32"));
  EXPECT_THAT(refusal(R"(,"augment":"flip","views":-1)"), HasSubstr("job: views -1"));
  EXPECT_THAT(refusal(R"(,"views":2)"), HasSubstr("all of them would be alike"));
  EXPECT_THAT(refusal(R"(,"augment":"flip,cutout","views":2)"), HasSubstr("--augment flip,cutout"));
  EXPECT_THAT(refusal(R"(,"augment":"flip")"), HasSubstr("--augment crop,flip --views 4"));
  EXPECT_THAT(refusal(R"(,"augment":"flip","views":2,"mode":"typical")"),
              HasSubstr("job: views 2 with mode typical: views are made where features are"));
}

TEST(JobSpecBest, IsOneOfTheMetrics) {
  for (const auto& [metric, name] : ndp::kBestMetrics) {
    const JobSpec s = parsed(R"(,"best":")" + std::string(name) + '"');
    EXPECT_EQ(parse_job_spec(s.text()).best, metric);
  }
  EXPECT_THAT(parsed("").text(), Not(HasSubstr("best"))) << "an earlier Tuner takes it";
  EXPECT_THAT(refusal(R"(,"best":"accuracy")"),
              HasSubstr("job: best 'accuracy': there are top1, top5, loss, macro-f1"));
}

TEST(JobSpecTraining, WeighsSmoothsCalibratesAndStopsAsItIsAsked) {
  const JobSpec s = parse_job_spec(
      parsed(
          R"(,"sampling":"balanced","class_weights":"a=2","patience":3,"calibrate":true,"label_smoothing":0.1)")
          .text());
  EXPECT_TRUE(s.sampling.balanced);
  EXPECT_EQ(s.sampling.class_weights, "a=2");
  EXPECT_EQ(s.patience, 3);
  EXPECT_TRUE(s.calibrate);
  EXPECT_EQ(s.trainer.label_smoothing, 0.1);
  for (const char* key : {"sampling", "class_weights", "patience", "calibrate"}) {
    EXPECT_THAT(parsed("").text(), Not(HasSubstr(key))) << "an earlier Tuner takes it";
  }
  const JobSpec chosen = parse_job_spec(
      parsed(R"(,"since":100,"label":["a","b"],"sample":7,"truth_share":0.5)").text());
  EXPECT_EQ(chosen.sampling.since, 100);
  EXPECT_EQ(chosen.sampling.labels, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(chosen.sampling.sample, 7);
  EXPECT_EQ(chosen.sampling.truth_share, 0.5);
  EXPECT_THAT(refusal(R"(,"truth_share":0.5)"), HasSubstr("--since"));
  for (const char* drawn : {R"(,"since":1,"truth_share":0.5)", R"(,"sampling":"balanced")"}) {
    EXPECT_EQ(parsed(std::string(drawn) + R"(,"tuners":2)").tuners, 2);
    EXPECT_THAT(refusal(std::string(drawn) + R"(,"tuners":2,"parallel":"auto")"),
                HasSubstr("take parallel dp"));
  }
  EXPECT_THAT(refusal(R"(,"sample":-1)"), HasSubstr("a sample of -1"));
  EXPECT_THAT(refusal(R"(,"sampling":"often")"), HasSubstr("there are shuffle, balanced"));
  EXPECT_THAT(refusal(R"(,"sampling":"balanced","class_weights":"balanced")"),
              HasSubstr("give one"));
  EXPECT_EQ(parsed(R"(,"class_weights":"a=2","tuners":2,"parallel":"hybrid")").tuners, 2);
  EXPECT_THAT(refusal(R"(,"patience":-1)"), HasSubstr("patience -1"));
  EXPECT_THAT(refusal(R"(,"patience":1,"runs":2)"), HasSubstr("with 2 the photos"));
}

TEST(JobSpecSchedule, IsOneOfThoseThatThereAre) {
  for (const auto& [kind, name] : kSchedules) {
    const std::string asked = R"(,"warmup":0.5,"sched":")" + std::string(name) + '"';
    const TrainerConfig t = parse_job_spec(parsed(asked).text()).trainer;
    EXPECT_EQ(t.schedule.kind, kind);
    EXPECT_EQ(t.warmup_epochs, 0.5);
  }
  EXPECT_THAT(refusal(R"(,"sched":"linear")"),
              HasSubstr("sched 'linear': there are constant, step, cosine, polynomial, exp"));
}

TEST(JobSpecAccumulate, IsNoMoreThanABatch) {
  EXPECT_EQ(parse_job_spec(parsed(R"(,"accumulate":4)").text()).trainer.accumulate, 4);
  EXPECT_THAT(refusal(R"(,"accumulate":0)"), HasSubstr("job: accumulate 0: from 1"));
  EXPECT_THAT(refusal(R"(,"batch":8,"accumulate":9)"), HasSubstr("job: accumulate 9: from 1"));
}

TEST(JobSpecStores, AreAllOrANumberOrNames) {
  EXPECT_TRUE(parsed("").stores.all());
  EXPECT_EQ(parsed("").store_timeout, 30);
  EXPECT_TRUE(parsed(R"(,"stores":"all")").stores.all());
  EXPECT_EQ(parsed(R"(,"stores":3)").stores, StoreSelection(3));
  const StoreSelection named = parsed(R"(,"stores":["cellar","attic"])").stores;
  EXPECT_EQ(named.text(), "attic,cellar");
  for (const char* said : {R"("all")", "3", R"(["attic","cellar"])"}) {
    const JobSpec s = parsed(std::string(R"(,"stores":)") + said);
    EXPECT_EQ(parse_job_spec(s.text()).stores, s.stores) << said;
  }
}

TEST(JobSpecStores, AreRefusedByValueWhenTheyAreNeither) {
  for (const char* number : {"0", "-1", "10001", "1.5", "1e30"}) {
    EXPECT_THAT(refusal(std::string(R"(,"stores":)") + number), HasSubstr("from 1 to 10000"));
  }
  EXPECT_EQ(refusal(R"(,"stores":1)"), "");
  EXPECT_EQ(refusal(R"(,"stores":10000)"), "");
  EXPECT_THAT(refusal(R"(,"stores":"some")"), HasSubstr("there are \"all\", a number, and a list"));
  EXPECT_THAT(refusal(R"(,"stores":true)"), HasSubstr("there are \"all\""));
  EXPECT_THAT(refusal(R"(,"stores":[])"), HasSubstr("from 1 to 500 names"));
  EXPECT_THAT(refusal(R"(,"stores":["a","../b"])"), HasSubstr("names are of letters"));
  EXPECT_THAT(refusal(R"(,"stores":[7])"), HasSubstr("names are of letters"));
  EXPECT_THAT(refusal(R"(,"stores":["a","b","a"])"), HasSubstr("a name occurs twice"));
  const auto many = [](size_t n) {
    std::string names;
    for (size_t i = 0; i < n; ++i) names += (i == 0 ? "\"s" : ",\"s") + std::to_string(i) + "\"";
    return R"(,"stores":[)" + names + "]";
  };
  EXPECT_EQ(refusal(many(kMostNamed)), "");
  EXPECT_THAT(refusal(many(kMostNamed + 1)), HasSubstr("from 1 to 500 names"));
}

TEST(JobSpecStores, AreWaitedForFromNotAtAllToAYear) {
  EXPECT_EQ(refusal(R"(,"store_timeout":0)"), "");
  EXPECT_EQ(refusal(R"(,"store_timeout":31622400)"), "");
  EXPECT_THAT(refusal(R"(,"store_timeout":31622401)"), HasSubstr("from 0 to 31622400 seconds"));
  EXPECT_THAT(refusal(R"(,"lost_after":0)"), HasSubstr("lost_after 0: above 0"));
  EXPECT_EQ(parse_job_spec(parsed(R"(,"lost_after":7)").text()).lost_after, 7);
  EXPECT_THAT(parsed("").text(), Not(HasSubstr("lost_after"))) << "an earlier Tuner takes it";
}

TEST(JobSpecChanged, TakesWhatDoesNotDecideTheResultAndNamesWhatDoes) {
  const JobSpec s = parsed(R"(,"epochs":7)");
  const JobSpec more = changed(
      s,
      R"({"stores":3,"disk":5,"memory":6,"store_timeout":9,"lost_after":8,"allow_missing":true})");
  EXPECT_EQ(more.stores, StoreSelection(3));
  EXPECT_EQ(more.lost_after, 8);
  EXPECT_EQ(more.disk, 5);
  EXPECT_EQ(more.memory, 6);
  EXPECT_EQ(more.store_timeout, 9);
  EXPECT_TRUE(more.allow_missing);
  EXPECT_EQ(more.trainer.epochs, 7);
  EXPECT_EQ(changed(s, "{}").text(), s.text());
  const auto refusal = [](const JobSpec& of, const char* changes) {
    try {
      (void)changed(of, changes);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(s, R"({"disk":5,"epochs":8})"),
              HasSubstr("epochs cannot change any more; of a finetune stores, store_timeout"));
  EXPECT_THAT(refusal(s, R"({"store_timeout":-1})"), HasSubstr("store_timeout -1"));
  EXPECT_THAT(refusal(s, R"({"stores":0})"), HasSubstr("stores 0: from 1 to 10000"));
  EXPECT_THAT(refusal(s, "[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(parsed(R"(,"kind":"relabel")"), R"({"disk":5})"),
              HasSubstr("of a relabel stores, store_timeout, lost_after and allow_missing can"));
}

}  // namespace
}  // namespace ndtrain::tuner
