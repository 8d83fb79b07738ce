// What transfer learning does to a model before training: which part is frozen, and a classifier
// for other classes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/graph/model.h"

namespace ndtrain {

// Where the classifier of a model is: its last Conv, Gemm or MatMul with weights.
struct ClassifierNode {
  size_t node;           // in Model::nodes
  std::string features;  // the value it reads
  std::string weight;
  std::string bias;  // "" if there is none
  int64_t classes;
};

// Throws Error when the model has no such op, or when the op does not decide the number of outputs.
ClassifierNode find_classifier(const Model& m);

// The same model with a classifier for `classes` classes, initialised as PyTorch does (uniform
// within 1/sqrt(fan-in)) from `seed`. What follows the classifier stays. Throws Error when the rest
// of the model cannot take another number of classes.
Model with_new_classifier(const Model& m, int64_t classes, uint64_t seed);

// The same, but the classes that are there keep their numbers and weights: more are added behind.
// Throws Error when `classes` are fewer than there are.
Model with_more_classes(const Model& m, int64_t classes, uint64_t seed);

// The model up to the classifier's features, averaged over space or over tokens where they have
// any, then one Gemm: "head.weight" and "head.bias".
Model with_linear_head(const Model& m, int64_t classes, uint64_t seed);

// The initialisers that are trained. `freeze`:
//   "auto"  all but the classifier is frozen
//   "none"  nothing is frozen
//   "12"    the first 12 Conv, Gemm and MatMul are frozen
//   NAME    the value NAME, or the last value computed with parameters NAME.*, and all it depends
//   on
// Running statistics of batch normalisation are never in the list, nor are scalars, nor a single
// number that is called val_N: exporters write the numbers of a formula so (a Clip's bounds, an
// epsilon; PyTorch's the scale of an attention). Throws Error when nothing is left to
// train or there is no NAME (with the last names there are).
std::vector<std::string> trainable_parameters(const Model& m, const std::string& freeze);

// What the learning rate of each parameter is multiplied by: decay^i for those of the i-th layer
// from the end, counted from 0. Layers are those that a number in `freeze` counts; what stands
// between two of them, as a normalisation, is of the one before it, and what stands before all of
// the first.
std::map<std::string, double> layer_rates(const Model& m, double decay);

// The names of the values that cross from the frozen part into the part that `trainable`
// influences. Empty when nothing is frozen.
std::vector<std::string> feature_names(const Model& m, const std::vector<std::string>& trainable);

// The model with each of `features` rounded to f16 where it crosses, so that it computes what was
// trained on cached f16 features; and without that rounding again.
Model with_rounded_features(const Model& m, const std::vector<std::string>& features);
Model without_rounded_features(const Model& m);

}  // namespace ndtrain
