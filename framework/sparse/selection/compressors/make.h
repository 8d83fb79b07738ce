// One file for each; compressor.cpp has the table of their names.
#pragma once

#include <memory>

#include "framework/sparse/selection/compressor.h"

namespace ndtrain::compressors {

std::unique_ptr<Compressor> topk(const CompressorOptions& options);
std::unique_ptr<Compressor> randomk(const CompressorOptions& options);
std::unique_ptr<Compressor> threshold_v(const CompressorOptions& options);
std::unique_ptr<Compressor> threshold_v16(const CompressorOptions& options);
std::unique_ptr<Compressor> signum(const CompressorOptions& options);
std::unique_ptr<Compressor> efsignum(const CompressorOptions& options);
std::unique_ptr<Compressor> gaussian(const CompressorOptions& options);

}  // namespace ndtrain::compressors
