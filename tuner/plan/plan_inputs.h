// What the planner knows: machines, costs per photo, the job. Plain values; 0 where a member says
// "unknown".
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ndtrain::tuner {

// Seconds elsewhere are of one core or accelerator of speed 1: the one that was measured.
struct Machine {
  double cores = 1;  // that the role may use
  double core_speed = 1;
  double accelerators = 0;  // 0: the network runs on the cores too
  double accelerator_speed = 1;
  double dollars_per_hour = 0;  // 0: unknown
  double busy_watts = 0;        // 0: unknown
  double idle_watts = 0;
};

// Means over the photos. Seconds are of one core.
struct PhotoCosts {
  double bytes = 0;                  // of the file
  double crop_bytes = 0;             // of the u8 crop that the network sees
  double compressed_crop_bytes = 0;  // 0: unknown, and srv-c is not predicted
  double prepare_s = 0;              // file to network input: decode, resize, crop, normalise
  double crop_s = 0;                 // file to u8 crop
  double normalise_s = 0;            // u8 crop to network input
  double compress_s = 0, decompress_s = 0;  // of a crop
};

// One place to cut the model. Seconds are per photo, of one accelerator, or of one core where the
// machines have none.
struct CutCost {
  std::string name;                            // the value that crosses
  double feature_bytes = 0;                    // per photo, above 0
  double extractor_bytes = 0, head_bytes = 0;  // of the files that travel
  double extract_s = 0;                        // in front of the cut
  double train_s = 0;                          // one step behind it
  double evaluate_s = 0;                       // forward only, behind it
};

struct PlanCosts {
  Machine store, tuner;
  // What stands there in the modes in which stores do not run the network; absent: the same.
  std::optional<Machine> plain_store, plain_tuner;
  PhotoCosts photo;
  std::vector<CutCost> cuts;  // legal ones, front to back; not empty
  double setup_s = 0;         // of the Tuner, before the first byte: import, split
  double plans_s = 0;         // of whoever runs the network, before its first photo:
                              // plans, what it makes of the drawn photos
  double epoch_s = 0;         // of the Tuner, one thread: behind each epoch, a checkpoint
  double finish_s = 0;        // of the Tuner, one thread: the models and the report, when trained
};

struct PlanInputs {
  PlanCosts costs;
  double photos = 0;
  double val_split = 0.2;
  double epochs = 15;          // per run
  bool all_runs = false;       // a run trains on all photos so far, not on its own alone
  double views = 0;            // of each photo to train on, in kNdpipe alone; 0: photos as they are
  double bandwidth = 0;        // bytes/s each way of the Tuner's link, which all stores share
  double store_bandwidth = 0;  // bytes/s of each store's own link; 0: no limit of its own
  double disk = 0;             // bytes that features may take on the Tuner; 0: no limit
  std::vector<int> stores = {1}, runs = {1};  // every pair is predicted
  // Of the photos, by store, as many as the most of `stores`: of fewer stores the first have all
  // of them, in these proportions. Empty: equal.
  std::vector<double> shares = {};
  // How many photos each of these stores holds, copies counted; goes where there are no `shares`:
  // a photo that several hold is made by the one that comes to it first. Empty: not known.
  std::vector<double> held = {};
  // How fast each of these stores works, beside `costs.store`. Empty: all like that.
  std::vector<double> speeds = {};
  // What each of these stores' own link carries, bytes/s; 0: `store_bandwidth`. Empty: all that.
  std::vector<double> links = {};
  // Photos whose features the Tuner has from earlier jobs in kNdpipe, by the name of the cut: these
  // are not extracted again and do not travel. More than there are photos: all of them.
  std::map<std::string, double> kept = {};
};

// So many rows has a run of a photo each of which is to train on, or to validate with in run 0.
inline double rows_of_photo(const PlanInputs& in, int run) {
  return run > 0 && in.views > 0 ? in.views : 1;
}

// Why there is no plan where training begins with the photo itself.
inline constexpr const char* kNothingFrozen =
    "nothing of the model is frozen, so there are no features to send, and a Tuner takes no such "
    "fine-tuning; another --freeze, or ndtrain train on one machine";

// Of stores that have so many photos each; one without any has one. Equal where that is not known
// of as many stores.
std::vector<double> shares_by_photos(std::vector<double> photos, int stores);

// Of all photos, each store's of so many, the first ones; they add up to 1. By `shares`; else by
// `held` and `speeds`, all working until all are made as long as there are photos that they hold.
std::vector<double> shares_of(const PlanInputs& in, int stores);

// Of store s, from 0; 1 where that is not known.
double speed_of(const PlanInputs& in, int store);

// Bytes/s of its own link; 0: no limit.
double link_of(const PlanInputs& in, int store);

// Throws Error naming the member: not finite, negative, nothing to do, machines that do not fit
// each other.
void validate(const PlanInputs& inputs);

}  // namespace ndtrain::tuner
