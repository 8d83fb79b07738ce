// What needs neither a PipeStore nor a Tuner, nor what connects them.
#include <array>

#include "cli/verb.h"

namespace ndtrain::cli {

#define VERB(id)                \
  void declare_##id(ArgsSpec&); \
  int run_##id(Context&, const Args&)
VERB(bench_collectives);
VERB(bench_decode);
VERB(bench_import);
VERB(bench_sparse);
VERB(bench_forward);
VERB(bench_layers);
VERB(bench_parallel);
VERB(bench_stages);
VERB(bench_pipeline);
VERB(bench_train);
VERB(completion);
VERB(doctor);
VERB(eval);
VERB(help);
VERB(manual);
VERB(model_build);
VERB(model_import);
VERB(model_inspect);
VERB(model_split);
VERB(model_quantize);
VERB(model_verify);
VERB(predict);
VERB(profile);
VERB(train);
VERB(tune);
VERB(version);
#undef VERB

std::span<const Verb> local_verbs() {
  static const std::array kVerbs = {
      Verb{"doctor", "what this machine offers: backends, threads, memory, cache", "",
           "  ndtrain doctor\n", declare_doctor, run_doctor},
      Verb{"train", "fine-tune or train a model on photos", "DATA -m MODEL -o RUN [options]",
           "  ndtrain train flowers -m squeezenet.onnx -o runs/flowers\n"
           "  ndtrain train flowers -m squeezenet.onnx -o runs/linear --head linear --ranks 2\n"
           "  ndtrain train flowers -m squeezenet.onnx -o runs/flowers --resume -e 30\n"
           "  ndtrain train --config runs/flowers -o runs/again\n"
           "  ndtrain train pets -m vgg.onnx -o two --freeze none --ranks 2 --parallel pipeline\n"
           "  ndtrain train photos -m runs/flowers -o runs/better --db sqlite:labels.db\n",
           declare_train, run_train},
      Verb{"eval", "accuracy of a model on labelled photos", "MODEL --data DIR [options]",
           "  ndtrain eval runs/flowers --data flowers\n"
           "  ndtrain eval model.onnx --data photos --labels labels.csv --confusion confusion.csv\n"
           "  ndtrain eval runs/flowers --data photos --db sqlite:labels.db\n",
           declare_eval, run_eval},
      Verb{"predict", "classes of photos, as CSV, JSON or Parquet", "MODEL PHOTOS... [options]",
           "  ndtrain predict runs/flowers photos -k 3 -o labels.csv\n"
           "  ndtrain predict runs/flowers a.jpg july/*.jpg 'archive/**/*.png'\n"
           "  find photos -newer labels.csv | ndtrain predict runs/flowers -\n"
           "  ndtrain predict model.onnx photos --format jsonl\n"
           "  ndtrain predict model.onnx photos -o labels.parquet\n",
           declare_predict, run_predict},
      Verb{"tune", "measure which algorithms a model's layers take here, for --tuning",
           "-m MODEL... [--tuning FILE] [--freeze WHAT]",
           "  ndtrain tune -m resnet50.onnx --tuning tuning.txt\n"
           "  ndtrain tune -m resnet18.onnx -m vit.onnx --tuning tuning.txt --device cuda --tf32\n"
           "  ndtrain tune -m resnet18.onnx --freeze none -b 64\n"
           "  ndtrain predict resnet50.onnx photos --tuning tuning.txt\n",
           declare_tune, run_tune},
      Verb{"profile", "measure what each node of a model costs, for ndtrain plan train",
           "[DATA] -m MODEL -o FILE [-b N] [--steps N] [options]",
           "  ndtrain profile -m alexnet.onnx -b 64 -o profile.json\n"
           "  ndtrain profile photos -m runs/flowers -b 32 --steps 20 -o profile.json\n"
           "  ndtrain profile -m resnet18.onnx -o graph.txt\n"
           "  ndtrain profile flowers -m runs/flowers --convergence -o convergence.txt\n",
           declare_profile, run_profile}};
  return kVerbs;
}

std::span<const Verb> local_model_verbs() {
  static const std::array verbs = {
      Verb{"model build", "write an architecture with fresh weights", "NAME -o FILE",
           "  ndtrain model build resnet18 -o resnet18.onnx --classes 10\n", declare_model_build,
           run_model_build},
      Verb{"model import", "declare what a foreign ONNX file does not say",
           "FILE -o FILE [options]",
           "  ndtrain model import foreign.onnx --img-size 224 --resize 256 --classes names.txt -o "
           "model.onnx\n"
           "  ndtrain model import dynamic.onnx --dim height=224 --dim width=224 -o model.onnx\n",
           declare_model_import, run_model_import},
      Verb{"model inspect", "ops, parameters, FLOPs and every legal cut", "FILE",
           "  ndtrain model inspect squeezenet.onnx\n", declare_model_inspect, run_model_inspect},
      Verb{"model split", "write extractor and trainable part, or the stages of a plan",
           "FILE --freeze WHAT | --stages PLAN -o DIR",
           "  ndtrain model split squeezenet.onnx --freeze auto -o parts\n"
           "  ndtrain model split alexnet.onnx --stages plan.json -o stages\n",
           declare_model_split, run_model_split},
      Verb{"model quantize", "write the int8 form of a model, with scales measured on photos",
           "FILE --data DIR -o FILE [options]",
           "  ndtrain model quantize resnet50.onnx --data photos -o resnet50-int8.onnx\n"
           "  ndtrain job submit finetune -m resnet50-int8.onnx  # all stores compute with these "
           "scales\n"
           "  ndtrain model quantize resnet50.onnx --precision bf16 -o resnet50-bf16.onnx\n",
           declare_model_quantize, run_model_quantize},
      Verb{"model verify",
           "compare a model's outputs with recorded ones, or less precision with f32",
           "FILE --data DIR [options]",
           "  ndtrain model verify model.onnx --data test_data_set_0\n"
           "  ndtrain model verify model.onnx --precision bf16 --data photos\n"
           "  ndtrain model verify model-int8.onnx --precision int8 --against model.onnx --data "
           "photos \\\n    --labels labels.csv --max-drop 1\n",
           declare_model_verify, run_model_verify}};
  return verbs;
}

std::span<const Verb> local_bench_verbs() {
  static const std::array verbs = {
      Verb{"bench forward", "time a model's forward pass", "-m FILE [-b N] [-j T] [--seconds S]",
           "  ndtrain bench forward -m resnet50.onnx -b 16 -j 1\n", declare_bench_forward,
           run_bench_forward},
      Verb{"bench layers", "time each layer alone on every backend: what the whole can be at best",
           "-m FILE [-b N] [-j T] [--seconds S]",
           "  ndtrain bench layers -m resnet50.onnx -b 16 -j 1\n", declare_bench_layers,
           run_bench_layers},
      Verb{"bench train", "time a training step", "-m FILE [-b N] [-j T] [--seconds S]",
           "  ndtrain bench train -m resnet18.onnx -b 8\n", declare_bench_train, run_bench_train},
      Verb{"bench pipeline",
           "photos to features: all stages at once against what each takes alone on one thread",
           "DIR -m FILE [-b N] [-j T] [--photos N] [--rounds N]",
           "  ndtrain bench pipeline photos -m squeezenet1_1.onnx -j 2\n", declare_bench_pipeline,
           run_bench_pipeline},
      Verb{"bench parallel",
           "replay a network's steps on ranks that sleep for its layers and really exchange",
           "--replay FILE[#NAME] [--ranks N] [--sync NAMES] [--rho X] [--matrix -o DIR]",
           "  ndtrain bench parallel --replay networks.json#resnet50 --ranks 2 --rho .75\n"
           "  ndtrain bench parallel --replay profile.json --sync ddp,auto --link 10G --latency "
           "5e-5\n"
           "  ndtrain bench parallel --replay networks.json --ranks 2,4 --rho .3,.75,1.5 --matrix "
           "-o replays\n",
           declare_bench_parallel, run_bench_parallel},
      Verb{"bench stages",
           "replay a plan's stages on ranks that sleep for them and really send their values",
           "--plan FILE --profile FILE --network FILE [--schedule NAMES] [--mini-batches N]",
           "  ndtrain bench stages --plan plan.json --profile profile.json --network network.json\n"
           "  ndtrain bench stages --plan plan.json --profile profile.json --network network.json "
           "--schedule gpipe,1f1b,zb --micro-batches 8\n",
           declare_bench_stages, run_bench_stages},
      Verb{"bench collectives", "time sums in the order of a tree against the library's own",
           "[--ranks N] [--shards V] [--megabytes LIST] [--rounds N]",
           "  ndtrain bench collectives --ranks 2 --megabytes 1,10\n"
           "  mpirun -n 2 ndtrain bench collectives\n",
           declare_bench_collectives, run_bench_collectives},
      Verb{"bench sparse",
           "time choosing the elements of a gradient that travel, and steps of these",
           "[--elements N] [--drop D] [--compressor NAMES] [--optimizer NAMES] [--rounds N]",
           "  ndtrain bench sparse\n"
           "  ndtrain bench sparse --elements 58600000 --compressor threshold-v16,topk --scan "
           "rotate\n",
           declare_bench_sparse, run_bench_sparse},
      Verb{"bench decode", "time decoding and preprocessing", "DIR [--seconds S]",
           "  ndtrain bench decode photos\n  ndtrain bench decode photos --sandbox --json\n",
           declare_bench_decode, run_bench_decode},
      Verb{"bench import", "time importing a model file", "-m FILE [--sandbox] [--seconds S]",
           "  ndtrain bench import -m resnet50.onnx\n"
           "  ndtrain bench import -m resnet50.onnx --sandbox --json\n",
           declare_bench_import, run_bench_import}};
  return verbs;
}

std::span<const Verb> local_help_verbs() {
  static const std::array verbs = {
      Verb{"help", "a verb's options and examples, as its --help", "[VERB]",
           "  ndtrain help train\n  ndtrain help job\n", declare_help, run_help},
      Verb{"completion", "what a shell needs to complete verbs and options", "bash|zsh",
           "  ndtrain completion bash > ~/.local/share/bash-completion/completions/ndtrain\n"
           "  ndtrain completion zsh > ~/.zfunc/_ndtrain  # with ~/.zfunc in $fpath\n",
           declare_completion, run_completion},
      Verb{"manual", "a manual page for each verb", "DIR",
           "  ndtrain manual /usr/local/share/man/man1\n  man ndtrain-train\n", declare_manual,
           run_manual},
      Verb{"version", "print the version", "", "  ndtrain version\n", declare_version,
           run_version}};
  return verbs;
}

}  // namespace ndtrain::cli
