#include "tuner/ingest/extracting_sink.h"

#include <zstd.h>

#include <algorithm>
#include <numeric>

#include "framework/core/finite.h"
#include "framework/passes/inference.h"
#include "ndp/engine/crops.h"
#include "ndp/photos/upload_path.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr int64_t kExtractBatch = 32;

// nullopt when it is not `size` bytes, compressed.
std::optional<std::string> unpack(std::string_view packed, size_t size) {
  std::string bytes(size, '\0');
  const size_t n = ZSTD_decompress(bytes.data(), size, packed.data(), packed.size());
  if (ZSTD_isError(n) || n != size) return std::nullopt;
  return bytes;
}

}  // namespace

TunerExtractor::TunerExtractor(const ModelFile& extractor, const Device& device, Spool& spool,
                               PhotoDecoder* decoder)
    : model_(extractor),
      plans_([this](int64_t b) { return inference_graph(model_.model, b); }, device, kExtractBatch),
      engine_(plans_, model_.preprocess, {.batch = kExtractBatch, .decoder = decoder}),
      spool_(spool) {}

Status TunerExtractor::put(const Item& item, const std::vector<Tensor>& outputs, size_t row,
                           std::vector<RowIngest::BadRow>& bad) {
  std::vector<std::byte> bytes;
  bool finite = true;
  for (const Tensor& t : outputs) {
    const size_t n = t.bytes() / static_cast<size_t>(t.shape()[0]);
    const auto* from = static_cast<const std::byte*>(t.data()) + row * n;
    bytes.insert(bytes.end(), from, from + n);
    finite = finite && all_finite(t.type().dtype, {from, n});
  }
  if (finite) return spool_.put(item.photo, bytes);
  bad.push_back({item.number, "the extractor makes NaN or Inf of it"});
  return {};
}

Result<std::vector<RowIngest::BadRow>> TunerExtractor::photos(
    std::span<const Item> items, const std::function<std::string(size_t)>& name,
    const Engine::Open& open) {
  std::vector<size_t> all(items.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<RowIngest::BadRow> bad;
  Status status;
  engine_.run(all, name, open, [&](const Engine::Batch& batch) {
    for (size_t r = 0; r < batch.items.size() && status.ok(); ++r) {
      status = put(items[batch.items[r]], batch.outputs, r, bad);
    }
    for (const BadPhoto& b : batch.bad) {
      bad.push_back({items[b.item].number, b.reason.message()});
    }
    return status.ok();
  });
  if (!status.ok()) return status;
  return bad;
}

Result<std::vector<RowIngest::BadRow>> TunerExtractor::crops(
    std::span<const Item> items, std::span<const std::string_view> crops) {
  std::vector<RowIngest::BadRow> bad;
  for (size_t begin = 0; begin < items.size(); begin += kExtractBatch) {
    const size_t n = std::min<size_t>(kExtractBatch, items.size() - begin);
    const auto outputs = infer_crops(plans_, model_.preprocess, crops.subspan(begin, n));
    for (size_t r = 0; r < n; ++r) {
      if (const Status s = put(items[begin + r], outputs, r, bad); !s.ok()) return s;
    }
  }
  return bad;
}

Result<std::vector<uint64_t>> ExtractingSink::open(const Manifest& manifest) {
  manifest_ = &manifest;
  return spool_.open(manifest);
}

Result<std::vector<RowIngest::BadRow>> ExtractingSink::keep(std::span<const RowIngest::Rows> rows) {
  std::vector<TunerExtractor::Item> items;
  std::vector<std::string_view> what;
  std::vector<std::string> unpacked;  // what `what` looks at, when it is compressed
  std::vector<RowIngest::BadRow> bad;
  size_t n = 0;
  for (const RowIngest::Rows& r : rows) n += r.rows.size();
  unpacked.reserve(n);
  for (const RowIngest::Rows& r : rows) {
    for (const auto& [number, row] : r.rows) {
      std::string_view bytes = row;
      if (rows_ == wire::Job::FILES && sha256(row) != manifest_->entry(number).digest) {
        bad.push_back({number, "the file is another one"});
        continue;
      }
      if (rows_ == wire::Job::PACKED_CROPS) {
        auto crop = unpack(row, extractor_.preprocess().values());
        if (!crop) {
          bad.push_back({number, "a crop that does not decompress"});
          continue;
        }
        bytes = unpacked.emplace_back(std::move(*crop));
      }
      items.push_back({number, manifest_->entry(number).digest});
      what.push_back(bytes);
    }
  }
  auto unread = rows_ == wire::Job::FILES
                    ? extractor_.photos(
                          items, [&](size_t i) { return upload_path_of(items[i].photo, what[i]); },
                          [&](size_t i) { return Result<std::string>(std::string(what[i])); })
                    : extractor_.crops(items, what);
  if (!unread.ok()) return unread.status();
  if (const Status s = spool_.flush(); !s.ok()) return s;
  bad.insert(bad.end(), unread->begin(), unread->end());
  return bad;
}

}  // namespace ndtrain::tuner
