#include <array>

#include "cli/verb.h"

namespace ndtrain::cli {

#define VERB(id)                \
  void declare_##id(ArgsSpec&); \
  int run_##id(Context&, const Args&)
VERB(bench_decode);
VERB(bench_forward);
VERB(bench_train);
VERB(cache_gc);
VERB(cache_ls);
VERB(cert_init);
VERB(demo);
VERB(doctor);
VERB(eval);
VERB(labels_export);
VERB(labels_import);
VERB(labels_query);
VERB(labels_set);
VERB(model_build);
VERB(model_import);
VERB(model_inspect);
VERB(model_split);
VERB(model_verify);
VERB(predict);
VERB(relabel);
VERB(train);
VERB(version);
#undef VERB

std::span<const Verb> verbs() {
  static const std::array kVerbs = {
      Verb{"doctor", "what this machine offers: backends, threads, memory, cache", "",
           "  ndtrain doctor\n", declare_doctor, run_doctor},
      Verb{"demo", "the whole story on drawn photos, in a minute", "DIR",
           "  ndtrain demo /tmp/demo\n", declare_demo, run_demo},
      Verb{"train", "fine-tune or train a model on photos", "DATA -m MODEL -o RUN [options]",
           "  ndtrain train flowers -m squeezenet.onnx -o runs/flowers\n"
           "  ndtrain train flowers -m squeezenet.onnx -o runs/linear --head linear -e 30\n"
           "  ndtrain train flowers -m squeezenet.onnx -o runs/flowers --resume\n"
           "  ndtrain train photos -m runs/flowers -o runs/better --db sqlite:labels.db\n",
           declare_train, run_train},
      Verb{"eval", "accuracy of a model on labelled photos", "MODEL --data DIR [options]",
           "  ndtrain eval runs/flowers --data flowers\n"
           "  ndtrain eval model.onnx --data photos --labels labels.csv --confusion confusion.csv\n"
           "  ndtrain eval runs/flowers --data photos --db sqlite:labels.db\n",
           declare_eval, run_eval},
      Verb{"predict", "classes of photos, as CSV or JSON", "MODEL DIR [options]",
           "  ndtrain predict runs/flowers photos -k 3 -o labels.csv\n"
           "  ndtrain predict model.onnx photos --format json\n",
           declare_predict, run_predict},
      Verb{"relabel", "label all photos of a directory into a database",
           "DIR -m MODEL --db sqlite:FILE",
           "  ndtrain relabel photos -m runs/flowers --db sqlite:labels.db\n"
           "  ndtrain relabel photos -m runs/flowers --db sqlite:labels.db --dry-run\n",
           declare_relabel, run_relabel},
      Verb{
          "labels query", "find labels", "--db sqlite:FILE [options]",
          "  ndtrain labels query --db sqlite:labels.db --label rose --max-score 0.6\n"
          "  ndtrain labels query --db sqlite:labels.db --source human --since $(date -d yesterday "
          "+%s)\n",
          declare_labels_query, run_labels_query},
      Verb{"labels set", "label one photo by hand", "PHOTO CLASS --db sqlite:FILE",
           "  ndtrain labels set july/1.jpg rose --db sqlite:labels.db\n", declare_labels_set,
           run_labels_set},
      Verb{"labels import", "take labels from a CSV file", "CSV --db sqlite:FILE",
           "  ndtrain labels import truth.csv --db sqlite:labels.db\n", declare_labels_import,
           run_labels_import},
      Verb{"labels export", "write current labels as CSV", "--db sqlite:FILE [-o FILE]",
           "  ndtrain labels export --db sqlite:labels.db -o labels.csv\n", declare_labels_export,
           run_labels_export},
      Verb{"model build", "write an architecture with fresh weights", "NAME -o FILE",
           "  ndtrain model build resnet18 -o resnet18.onnx --classes 10\n", declare_model_build,
           run_model_build},
      Verb{"model import", "declare what a foreign ONNX file does not say",
           "FILE -o FILE [options]",
           "  ndtrain model import foreign.onnx --img-size 224 --resize 256 --classes names.txt -o "
           "model.onnx\n",
           declare_model_import, run_model_import},
      Verb{"model inspect", "ops, parameters, FLOPs and every legal cut", "FILE",
           "  ndtrain model inspect squeezenet.onnx\n", declare_model_inspect, run_model_inspect},
      Verb{"model split", "write extractor and trainable part", "FILE --freeze WHAT -o DIR",
           "  ndtrain model split squeezenet.onnx --freeze auto -o parts\n", declare_model_split,
           run_model_split},
      Verb{"model verify", "compare a model's outputs with recorded ones",
           "FILE --data DIR [options]",
           "  ndtrain model verify model.onnx --data test_data_set_0\n", declare_model_verify,
           run_model_verify},
      Verb{"cache ls", "what the feature cache holds", "[--cache DIR]", "  ndtrain cache ls\n",
           declare_cache_ls, run_cache_ls},
      Verb{"cache gc", "shrink the feature cache to its budget", "[--cache DIR] [--budget BYTES]",
           "  ndtrain cache gc --budget 2G\n", declare_cache_gc, run_cache_gc},
      Verb{"cert init", "certificates for links between machines", "DIR [options]",
           "  ndtrain cert init certs --host tuner.example.org,10.0.0.5 --store store-1,store-2\n"
           "  ndtrain cert init certs --store store-3          # another PipeStore, later\n"
           "  ndtrain cert init certs --store store-1 --force  # before its certificate expires\n",
           declare_cert_init, run_cert_init},
      Verb{"bench forward", "time a model's forward pass", "-m FILE [-b N] [-j T] [--seconds S]",
           "  ndtrain bench forward -m resnet50.onnx -b 16 -j 1\n", declare_bench_forward,
           run_bench_forward},
      Verb{"bench train", "time a training step", "-m FILE [-b N] [-j T] [--seconds S]",
           "  ndtrain bench train -m resnet18.onnx -b 8\n", declare_bench_train, run_bench_train},
      Verb{"bench decode", "time decoding and preprocessing", "DIR [--seconds S]",
           "  ndtrain bench decode photos\n", declare_bench_decode, run_bench_decode},
      Verb{"version", "print the version", "", "  ndtrain version\n", declare_version, run_version},
  };
  return kVerbs;
}

}  // namespace ndtrain::cli
