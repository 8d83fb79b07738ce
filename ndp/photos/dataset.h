// Photos with labels to train on. What goes wrong is the user's data, so errors are Statuses whose
// message says which file or line and what to do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"

namespace ndtrain::ndp {

struct LabelledPhotos {
  struct Item {
    std::string path;  // relative to root, parts separated by '/'
    int label = 0;     // index into classes
  };

  std::string root;
  std::vector<std::string> classes;
  std::vector<Item> items;
  std::map<std::string, int64_t> skipped;  // photos of formats we do not read: "HEIC" -> count
  // Left out: what people uploaded to a PipeStore of an older version, which kept it here. Its
  // folder says nothing of what it shows.
  int64_t uploads = 0;
  // Labels are numbers of a model's outputs: the file gives them, or a list of names in order.
  bool by_output = false;
};

// ROOT/<class>/**: classes are the directories in byte order, as in torchvision; items in the order
// of their paths. Names that start with a dot are not looked at. Errors: no class folders, a class
// folder without photos, no photos at all, anything that cannot be listed.
Result<LabelledPhotos> read_image_folder(Fs& fs, const std::string& root);

// Some of the folders in which photos lie as in read_image_folder's classes, whatever they mean;
// at most so many, in byte order. Empty when there are fewer than two, or `root` cannot be read.
std::vector<std::string> class_like_folders(Fs& fs, const std::string& root, size_t most);

// A file of labels as read_label_rows() reads it; what models said is left out, which the log says.
// Files are relative to `root`. `classes_file` has one name per line; "" takes classes.txt beside
// the file of labels if there is one. A class is a name or else an index into these; without them
// the classes are 0 … the largest index when all are integers, otherwise the distinct names in byte
// order. Errors name the line: a file that is missing, leaves `root` or has two labels, a class
// that is unknown or out of range.
Result<LabelledPhotos> read_labels_csv(Fs& fs, const std::string& csv, const std::string& root,
                                       const std::string& classes_file = "");

// The same photos with their labels counted in `classes`. kNotFound, naming it, for a class not in
// there.
Result<LabelledPhotos> with_classes(LabelledPhotos photos, const std::vector<std::string>& classes);

struct DataLayout {
  std::string train;  // where the training photos are
  std::string val;    // "" when there is no directory of validation photos: see in_validation
};

// DATA/train and DATA/val, or DATA/train alone, or DATA itself.
Result<DataLayout> find_layout(Fs& fs, const std::string& data);

// Whether a photo is for validation when `fraction` of all are: a function of its bytes alone, so
// fixed for its life, wherever it is stored. A photo in a smaller fraction is in every larger one.
bool in_validation(const Digest& photo, double fraction);

}  // namespace ndtrain::ndp
