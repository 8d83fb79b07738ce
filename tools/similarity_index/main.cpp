// ndt_similarity_index MODEL PHOTOS CACHE N: recall, latency, time to build and memory of an
// index of N embeddings, as JSON. The embeddings are drawn from those of the photos, of one folder
// a class: of two of a class a point between them, with noise of a length of .3 in all directions.
// For bench/similarity_index.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <shared_mutex>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/core/json.h"
#include "framework/core/rng.h"
#include "framework/runtime/backend.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/photo_embeddings.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/similarity/index_division.h"

namespace {
using namespace ndtrain;
using namespace ndtrain::ndp;

constexpr uint64_t kSeed = 7;
constexpr double kNoise = 0.3;
constexpr size_t kQueries = 200, kNearest = 10;

struct Classes {
  EmbeddingRows rows;
  std::vector<std::vector<size_t>> members;  // of each class, its rows
};

Classes classes_of(const char* model, const char* photos, const char* cache) {
  NoProgress progress;
  const Device cpu(Backend::find("cpu"));
  const auto catalogue = open_catalogue(real_fs(), cache, photos);
  const PhotoSet set = all_photos(real_fs(), *catalogue, photos, progress);
  PhotoEmbeddings embedded = embed_photos(set, load_model(real_fs(), model), {.cache = cache}, cpu,
                                          real_fs(), system_clock(), progress);
  std::map<std::string, std::vector<size_t>> folders;
  for (size_t i = 0; i < embedded.photos.size(); ++i) {
    folders[parent_of(set.photos[embedded.photos[i]].path)].push_back(i);
  }
  Classes classes{std::move(embedded.rows), {}};
  for (auto& [folder, members] : folders) classes.members.push_back(std::move(members));
  return classes;
}

class Generator {
 public:
  explicit Generator(Classes classes) : classes_(std::move(classes)) {}

  size_t dimensions() const { return classes_.rows.dimensions; }
  Embedding draw(uint64_t i) const {
    Rng rng(kSeed, i);
    const auto& of = classes_.members[rng.next_below(classes_.members.size())];
    const auto a = classes_.rows.row(of[rng.next_below(of.size())]);
    const auto b = classes_.rows.row(of[rng.next_below(of.size())]);
    const double t = rng.next_uniform();
    const double noise = kNoise / std::sqrt(static_cast<double>(dimensions()));
    Embedding e(dimensions());
    for (size_t d = 0; d < e.size(); ++d) {
      e[d] =
          static_cast<float>((1 - t) * double{a[d]} + t * double{b[d]} + noise * rng.next_normal());
    }
    normalise(e);
    return e;
  }

 private:
  Classes classes_;
};

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of this process, in bytes; `what`: VmRSS or VmHWM.
double memory(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(what + ":")) return 1024 * std::strtod(line.c_str() + what.size() + 1, {});
  }
  return 0;
}

bool any(const Digest&) { return true; }

Json measured(const Generator& from, size_t n) {
  malloc_trim(0);
  const double before = memory("VmRSS");
  std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM begins anew
  EmbeddingIndex index(from.dimensions());
  for (size_t i = 0; i < n; ++i) index.put(sha256(std::to_string(i)), from.draw(i));
  std::shared_mutex mutex;
  ThreadPool two(2);
  size_t cells = 0;
  const double build = seconds_of([&] {
    const IndexDivision division = division_of(index, mutex, two);
    cells = division.partition->cells();
    index.divide(division.partition, division.cells);
  });
  const double peak = memory("VmHWM") - before;
  malloc_trim(0);  // as roles do every half minute
  const double held = memory("VmRSS") - before;
  std::vector<double> milliseconds, exactly;
  size_t found = 0;
  for (size_t q = 0; q < kQueries; ++q) {
    const Embedding query = from.draw(n + q);
    std::vector<Neighbour> near, exact;
    milliseconds.push_back(1e3 * seconds_of([&] { near = index.nearest(query, kNearest, any); }));
    exactly.push_back(1e3 *
                      seconds_of([&] { exact = index.nearest_exactly(query, kNearest, any); }));
    std::set<Digest> right;
    for (const Neighbour& e : exact) right.insert(e.photo);
    for (const Neighbour& e : near) found += right.contains(e.photo) ? 1 : 0;
  }
  std::ranges::sort(milliseconds);
  std::ranges::sort(exactly);
  const double f16 = 2.0 * static_cast<double>(n * from.dimensions());
  return {{"embeddings", n},
          {"dimensions", from.dimensions()},
          {"seed", kSeed},
          {"noise", kNoise},
          {"cells", cells},
          {"recall_at_10", static_cast<double>(found) / double{kQueries * kNearest}},
          {"median_ms", milliseconds[kQueries / 2]},
          {"p95_ms", milliseconds[kQueries * 95 / 100]},
          {"exact_median_ms", exactly[kQueries / 2]},
          {"build_s_two_threads", build},
          {"memory_of_f16", held / f16},
          {"peak_memory_of_f16", peak / f16}};
}

int run(char** argv) {
  const Generator from(classes_of(argv[1], argv[2], argv[3]));
  const Json row = measured(from, std::strtoull(argv[4], nullptr, 10));
  std::printf("%s\n", json_text(row).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s MODEL PHOTOS CACHE N\n", argv[0]);
    return 2;
  }
  try {
    return run(argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
