#include "cli/photo_args.h"

#include <fmt/format.h>

#include <iostream>
#include <iterator>

#include "cli/photo_fs.h"
#include "cli/verb.h"
#include "framework/core/log.h"

namespace ndtrain::cli {
using namespace ndp;

std::string cache_directory(const Args& args) {
  return args.has("cache") ? args.text("cache") : default_cache_directory();
}

namespace {

PhotoSet photos_in_database(Context& context, const Args& args, const ModelFile& model) {
  const DatabaseLabels labels(database_labels(args));
  const DataLayout layout = find_layout(context.fs(), args.required("data")).or_throw();
  const std::string& root = layout.val.empty() ? layout.train : layout.val;
  PhotoSet set =
      all_photos(context.fs(), *open_catalogue(context.fs(), cache_directory(args), root), root,
                 context.progress());
  labels.label(set);
  context.progress().say(fmt::format("labels of {} photos ({}) from the database; {} have none",
                                     set.photos.size(), labels.sources_of(set), set.unlabelled));
  std::vector<std::string> classes;
  for (int64_t i = 0, n = model.outputs(); i < n; ++i) classes.push_back(model.class_name(i));
  count_in(set, classes);
  context.progress().say(describe_classes(root, set));
  return set;
}

// Names of folders say nothing to a model whose outputs have none.
void refuse_unnamed(const ModelFile& model, const LabelledPhotos& photos) {
  if (!model.classes.empty() || photos.by_output) return;
  throw Error(
      model.path, " has no class names, so which output is which of the ", photos.classes.size(),
      " classes in ", photos.root,
      " is not known; write them into it, in the order of its outputs: ndtrain model import ",
      model.path, " --classes NAMES.txt -o NAMED.onnx");
}

}  // namespace

void declare_photos(ArgsSpec& args) {
  args.positionals(
      "PHOTOS",
      "directories, photos, patterns ('july/**/*.jpg'), and lists: files with a path a line, or - "
      "for stdin");
}

NamedPhotos named_photos(const Args& args) {
  NamedPhotos named{.names = args.list("PHOTOS"), .cache = cache_directory(args)};
  if (named.names.empty()) throw UsageError("PHOTOS is missing");
  named.input = [] { return std::string(std::istreambuf_iterator<char>(std::cin), {}); };
  return named;
}

void declare_label_flags(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Data");
  args.flag(
      "labels",
      "a file says what the photos show: CSV with the columns file,class, or what ndtrain labels "
      "export wrote",
      "FILE");
  args.flag("db", "a label database says it, as relabel and labels set fill it", "URL");
  args.flag("collection", "collection of photos in the database", "NAME",
            std::string(kDefaultCollection));
  args.flag("task", "task of the database; its classes are the model's", "NAME",
            std::string(kDefaultTask));
  args.flag("pseudo", "labels that a model made count too, where nobody else has said anything");
}

DatabaseLabelsConfig database_labels(const Args& args) {
  if (args.has("db") && args.has("labels")) {
    throw UsageError("--db and --labels: only one can say what the photos show");
  }
  if (args.on("pseudo") && !args.has("db")) {
    throw UsageError("--pseudo: a model's labels are in a label database; say which with --db");
  }
  return {.url = args.text("db"),
          .collection = args.required("collection"),
          .task = args.required("task"),
          .pseudo = args.on("pseudo")};
}

PhotoSet labelled_photos(Context& context, const Args& args, const ModelFile& model) {
  refuse_object_stores({args.required("data")});
  if (!database_labels(args).url.empty()) return photos_in_database(context, args, model);
  const std::string data = args.required("data");
  LabelledPhotos photos;
  if (args.has("labels")) {
    photos = read_labels_csv(context.fs(), args.text("labels"), data).or_throw();
  } else {
    const DataLayout layout = find_layout(context.fs(), data).or_throw();
    photos =
        read_image_folder(context.fs(), layout.val.empty() ? layout.train : layout.val).or_throw();
  }
  refuse_unnamed(model, photos);
  if (!model.classes.empty()) photos = with_classes(std::move(photos), model.classes).or_throw();
  const auto catalogue = open_catalogue(context.fs(), cache_directory(args), photos.root);
  PhotoSet set = hash_photos(context.fs(), *catalogue, photos, context.progress());
  context.progress().say(describe_classes(photos.root, set));
  return set;
}

int report_quarantine(const std::vector<QuarantinedPhoto>& photos) {
  constexpr size_t kShown = 20;
  for (size_t i = 0; i < std::min(photos.size(), kShown); ++i) {
    log::warn("quarantined {}: {}", photos[i].path, photos[i].reason);
  }
  if (photos.size() > kShown) log::warn("… and {} more", photos.size() - kShown);
  return photos.empty() ? kOk : kQuarantined;
}

}  // namespace ndtrain::cli
