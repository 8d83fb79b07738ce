#include "cli/unknown_verb.h"

#include "cli/suggest.h"
#include "cli/verb.h"

namespace ndtrain::cli {

void unknown_verb(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  std::string family;
  for (const Verb& v : verbs()) {
    names.emplace_back(v.name);
    if (v.name.starts_with(words[0] + " "))
      family += (family.empty() ? "" : ", ") + std::string(v.name);
  }
  const std::string two =
      words.size() > 1 && !words[1].starts_with("-") ? words[0] + " " + words[1] : words[0];
  if (!family.empty() && two == words[0]) {
    throw UsageError("'" + two + "' needs a second word: " + family);
  }
  std::string near = nearest(two, names);
  if (near.empty()) near = nearest(words[0], names);
  std::string what = "there is no verb '" + (family.empty() ? words[0] : two) + "'";
  if (!near.empty()) {
    what += "; did you mean 'ndtrain " + near + "'?";
  } else if (!family.empty()) {
    what += "; there are " + family;
  } else {
    what += "; ndtrain --help lists them";
  }
  throw UsageError(what);
}

}  // namespace ndtrain::cli
