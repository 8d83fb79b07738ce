#include <fmt/format.h>

#include <numeric>

#include "cli/computing_args.h"
#include "cli/format_args.h"
#include "cli/photo_args.h"
#include "cli/photo_fs.h"
#include "cli/precision_args.h"
#include "cli/save_inputs.h"
#include "cli/verb.h"
#include "framework/core/csv.h"
#include "framework/core/publish.h"
#include "ndp/jobs/classify.h"
#include "ndp/labels/parquet_writer.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// Rows file,rank,class,score, as CSV or Parquet; or {file, top: [{class, score}]}, in an array or
// each on a line.
class Listing {
 public:
  Listing(const ModelFile& model, LabelFormat format) : model_(model), format_(format) {}

  void add(const std::string& path, const Classification& c) {
    ++photos_;
    if (format_ == LabelFormat::kCsv || format_ == LabelFormat::kParquet) return add_rows(path, c);
    Json top = Json::array();
    for (const auto& t : c.top) {
      top.push_back({{"class", model_.class_name(t.id)}, {"score", t.score}});
    }
    Json photo = {{"file", path}, {"top", std::move(top)}};
    if (format_ == LabelFormat::kJson) {
      array_.push_back(std::move(photo));
    } else {
      text_ += json_text(photo) + "\n";
    }
  }

  int64_t photos() const { return photos_; }
  // Once.
  std::string take() {
    if (format_ == LabelFormat::kJson) return json_text(array_, 2) + "\n";
    if (format_ == LabelFormat::kParquet) table_.finish().or_throw();
    return (format_ == LabelFormat::kCsv ? "file,rank,class,score\n" : "") + text_;
  }

 private:
  void add_rows(const std::string& path, const Classification& c) {
    for (size_t i = 0; i < c.top.size(); ++i) {
      const std::string name = model_.class_name(c.top[i].id);
      if (format_ == LabelFormat::kCsv) {
        text_ +=
            csv_row({path, std::to_string(i + 1), name, fmt::format("{:.6f}", c.top[i].score)});
        continue;
      }
      table_.text(path);
      table_.integer(static_cast<int64_t>(i) + 1);
      table_.text(name);
      table_.real(c.top[i].score);
      table_.end_row().or_throw();
    }
  }

  const ModelFile& model_;
  const LabelFormat format_;
  int64_t photos_ = 0;
  Json array_ = Json::array();
  std::string text_;
  ParquetWriter table_{{{"file", ParquetWriter::Type::kText},
                        {"rank", ParquetWriter::Type::kInteger},
                        {"class", ParquetWriter::Type::kText},
                        {"score", ParquetWriter::Type::kReal}},
                       [this](std::string_view bytes) {
                         text_ += bytes;
                         return Status();
                       }};
};

}  // namespace

void declare_predict(ArgsSpec& args) {
  args.positional("MODEL", "a run directory or an ONNX file");
  declare_photos(args);
  args.flag("k", "the N best classes of each photo", "N", "5");
  declare_format(args);
  args.flag("o,out", "the file to write (default: stdout)", "FILE");
  args.flag("b,batch", "the most photos at a time", "N", "32");
  args.flag("save-inputs", "also write what the network sees of each photo, as .pb tensors", "DIR");
  args.flag("cache", "where the list of the photos is kept (default: ~/.cache/ndtrain)", "DIR");
  declare_precision_flags(args);
  declare_deterministic(args, /*features=*/false);
  declare_computing(args);
}

int run_predict(Context& context, const Args& args) {
  const LabelFormat format = format_to_write(args, context.json());
  ModelFile model = load_model(context.fs(), args.required("MODEL"));
  context.progress().say(preprocess_note(model));
  const NamedPhotos named = named_photos(args);
  refuse_object_stores(named.names);
  PhotoSet set = read_named_photos(context.fs(), named, context.progress());
  if (set.photos.empty()) {
    (void)report_quarantine(set.quarantined);
    throw Error(named.names[0], ": there are no photos that can be read");
  }
  model = in_precision(model, precision_config(args, named.cache), set, context.device(),
                       context.fs(), context.progress());
  if (args.has("save-inputs"))
    save_inputs(context.fs(), set, model.preprocess, args.text("save-inputs"));
  std::vector<size_t> all(set.photos.size());
  std::iota(all.begin(), all.end(), size_t{0});
  Listing listing(model, format);
  int64_t done = 0;
  context.progress().begin("predicting", static_cast<int64_t>(all.size()), "photos");
  classify(model, context.device(), context.fs(), set, all,
           {.k = args.integer("k"), .batch = args.integer("batch")},
           [&](std::span<const Classification> results, std::span<const BadPhoto> bad) {
             for (const Classification& c : results) listing.add(set.photos[c.photo].path, c);
             for (const BadPhoto& b : bad) {
               const std::string& path = set.photos[b.item].path;
               if (b.reason.code() == Code::kUnsupported) {
                 ++set.skipped[extension_of(path)];
               } else {
                 set.quarantined.push_back({path, b.reason.message()});
               }
             }
             done += static_cast<int64_t>(results.size() + bad.size());
             context.progress().update(done);
             return !context.progress().interrupted();
           });
  context.progress().end();
  if (args.has("out")) {
    publish(context.fs(), args.text("out"), listing.take()).or_throw();
    context.print(Json{{"file", args.text("out")}, {"photos", listing.photos()}},
                  fmt::format("{} photos to {}\n", listing.photos(), args.text("out")));
  } else {
    context.print(listing.take());
  }
  for (const auto& [kind, n] : set.skipped) {
    context.progress().say(fmt::format("{} photos left out: {} is not read", n, kind));
  }
  if (context.progress().interrupted()) return kInterrupted;
  return report_quarantine(set.quarantined);
}

}  // namespace ndtrain::cli
