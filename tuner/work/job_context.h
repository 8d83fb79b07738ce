#pragma once

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/runtime/devices.h"
#include "ndp/photos/photo_decoder.h"
#include "tuner/group/training_members.h"
#include "tuner/ingest/kept_features.h"
#include "tuner/models/model_store.h"

namespace ndtrain::tuner {

// Where a job works, and with what.
struct JobContext {
  Fs& fs;
  Clock& clock;
  Devices& devices;
  ModelStore& models;
  TrainingMembers* members = nullptr;  // Tuners that may train with this one; null: there are none
  KeptFeatures* features = nullptr;    // of earlier jobs; null: none are kept
  PhotoDecoder* decoder = nullptr;     // of photos' files; null: this process decodes them
};

}  // namespace ndtrain::tuner
