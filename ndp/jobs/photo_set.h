#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ndp/jobs/progress.h"
#include "ndp/photos/catalogue.h"
#include "ndp/photos/dataset.h"

namespace ndtrain::ndp {

struct Photo {
  std::string path;  // below the set's root
  Digest digest;
  int64_t bytes = 0;
  int label = -1;          // -1: none known
  int64_t view = 0;        // of several of the same photo: see PhotoViews
  int64_t label_time = 0;  // when a label database was told it, in Unix seconds; 0: not known
};

struct QuarantinedPhoto {
  std::string path, reason;
};

// Photos of one directory, by content, with labels where they are known.
struct PhotoSet {
  std::string root;
  std::vector<std::string> classes;
  std::vector<Photo> photos;
  std::vector<QuarantinedPhoto> quarantined;
  std::map<std::string, int64_t> skipped;  // formats we do not read -> count
  int64_t unlabelled = 0;                  // left out of `photos`: nobody has said what they show

  double mean_bytes() const;
  int64_t skipped_count() const;
};

// Where derived files live unless the user says otherwise: $NDTRAIN_CACHE, $XDG_CACHE_HOME/ndtrain
// or ~/.cache/ndtrain.
std::string default_cache_directory();

// The catalogue of one photo directory, kept in a directory under `cache`.
std::string catalogue_directory(const std::string& cache, const std::string& root);
std::unique_ptr<Catalogue> open_catalogue(Fs& fs, const std::string& cache,
                                          const std::string& root);

// Scans the directory (only what changed is read) and looks the photos up. Throws Error when the
// directory cannot be read.
PhotoSet hash_photos(Fs& fs, Catalogue& catalogue, const LabelledPhotos& labelled,
                     Progress& progress);
PhotoSet all_photos(Fs& fs, Catalogue& catalogue, const std::string& root, Progress& progress);
// Of a source of which `root` is the name, for people. A Status where it cannot be read.
Result<PhotoSet> all_photos(PhotoSource& source, Catalogue& catalogue, const std::string& root,
                            Progress& progress, const ScanOptions& options = {});

// What these do, for scans that are made otherwise: one process at a time scans, problems are said,
// and of the photos what the last scan says is taken.
std::unique_ptr<FileLock> lock_scan(const Catalogue& catalogue, const std::string& root,
                                    Progress& progress);
void say_problems(const ScanReport& report, Progress& progress);
PhotoSet known_photos(Catalogue& catalogue, const std::string& root);
// What the source lists, of which nothing is read: photos whose files are as the last scan found
// them, and in `unread` how many others have the name of a photo that we can decode. Throws Error.
PhotoSet listed_photos(PhotoSource& source, Catalogue& catalogue, const std::string& root,
                       int64_t& unread);

// The same labels counted in other classes. Throws Error, naming it, for a label not among them.
void count_in(PhotoSet& set, const std::vector<std::string>& classes);

// These classes, then those of the set that are not among them.
std::vector<std::string> with_added(std::vector<std::string> classes, const PhotoSet& set);

// "photos: 30 photos of 2 classes: disc 18, ring 12"; of many classes the first and the range.
std::string describe_classes(const std::string& name, const PhotoSet& set);

std::string quarantine_csv(const std::vector<QuarantinedPhoto>& photos);

}  // namespace ndtrain::ndp
