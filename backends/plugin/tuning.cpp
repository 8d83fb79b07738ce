#include "backends/plugin/tuning.h"

#include "backends/plugin/answer.h"

namespace ndtrain::plugin {
namespace {

constexpr int32_t kWarning = 2;

std::string one_word(std::string s) {
  for (char& c : s) {
    if (c <= ' ') c = '_';
  }
  return s;
}

}  // namespace

Tuning::Tuning(const ndt_options& options, const Owner& owner)
    : path_(options.tuning_file),
      here_(owner.plugin + ' ' + one_word(owner.chip) + ' ' + one_word(owner.library) + ' '),
      on_choice_(options.on_choice),
      on_choice_arg_(options.on_choice_arg) {
  if (on_choice_) add_to_tuning_file(path_, {});
  for (const auto& [key, choice] : read_tuning_file(path_)) {
    if (key.starts_with(here_)) choices_.emplace(key.substr(here_.size()), choice);
  }
  if (!choices_.empty() || on_choice_ || !owner.log) return;
  owner.log(kWarning, text_of("the tuning file ", path_, " has nothing for ", owner.plugin, " on ",
                              owner.chip, " with ", owner.library,
                              ": all layers follow the fixed rule; ndtrain tune -m MODEL --tuning ",
                              path_, " measures here")
                          .c_str());
}

std::shared_ptr<Tuning> Tuning::open(const ndt_options& options, const Owner& owner) {
  if (options.deterministic || !options.tuning_file) return nullptr;
  return std::shared_ptr<Tuning>(new Tuning(options, owner));
}

std::string Tuning::choose(const std::string& layer, const std::string& rule,
                           const Measure& measure) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (on_choice_) lock.lock();
  const auto known = choices_.find(layer);
  const bool holds = known != choices_.end() && known->second.rule == rule;
  if (!on_choice_) return holds ? known->second.choice : rule;
  Measured m;
  if (holds) {
    m.choice = known->second.choice;
  } else {
    const std::optional<Measured> found = measure();
    if (!found) return rule;
    m = *found;
    add_to_tuning_file(path_, {{here_ + layer, {m.choice, rule}}});
    choices_.insert_or_assign(layer, TunedChoice{m.choice, rule});
  }
  tell(layer, rule, m);
  return m.choice;
}

void Tuning::tell(const std::string& layer, const std::string& rule, const Measured& m) const {
  const ndt_choice choice{.layer = layer.c_str(),
                          .chosen = m.choice.c_str(),
                          .rule = rule.c_str(),
                          .chosen_seconds = m.chosen_seconds,
                          .rule_seconds = m.rule_seconds};
  on_choice_(on_choice_arg_, &choice);
}

std::string Tuning::digest() const {
  std::string text;
  for (const auto& [layer, c] : choices_) {
    if (c.choice != c.rule) text += text_of(layer, ' ', c.choice, ' ', c.rule, '\n');
  }
  return text.empty() ? text : " tuned-" + text_of_digest(digest_of(text));
}

std::string Tuning::description() const {
  size_t against = 0;
  for (const auto& [layer, c] : choices_) against += c.choice != c.rule;
  return text_of(choices_.size(), " layers tuned, ", against, " of them against the rule");
}

}  // namespace ndtrain::plugin
