#include "tuner/jobs/store_choice.h"

#include <fmt/format.h>

#include <algorithm>

namespace ndtrain::tuner {
namespace {

constexpr size_t kNamed = 20;  // in one text

std::string why_apart(const StoreStatus& s) {
  if (s.drained) return "drained";
  if (s.here) return "lists its photos";
  const auto away = std::chrono::duration_cast<std::chrono::seconds>(s.away).count();
  return away < 120 ? fmt::format("away for {} s", away)
                    : fmt::format("away for {} min", away / 60);
}

UnavailableStore apart(const StoreStatus& s, std::string why) {
  return {s.name, s.photos, std::move(why)};
}

std::vector<StoreStatus> meant_of(const StoreSelection& meant, std::span<const StoreStatus> known) {
  std::vector<StoreStatus> of;
  std::ranges::copy_if(known, std::back_inserter(of),
                       [&](const StoreStatus& s) { return meant.includes(s.name); });
  std::ranges::sort(of, {}, &StoreStatus::name);
  return of;
}

// Named ones that were forgotten.
void add_unknown(const StoreSelection& meant, std::span<const StoreStatus> known,
                 std::vector<UnavailableStore>& to) {
  for (const std::string& name : meant.names) {
    if (std::ranges::find(known, name, &StoreStatus::name) == known.end()) {
      to.push_back({name, 0, "not known to this Tuner"});
    }
  }
}

std::string beyond(uint32_t number) {
  return fmt::format("not among the {} that the job is for", number);
}

}  // namespace

bool StoreSelection::includes(std::string_view store) const {
  return names.empty() || std::ranges::find(names, store) != names.end();
}

std::string StoreSelection::text() const {
  if (all()) return "all";
  if (number > 0) return std::to_string(number);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

std::string text_of(std::span<const UnavailableStore> stores) {
  std::string text;
  for (const UnavailableStore& s : stores.first(std::min(stores.size(), kNamed))) {
    text += fmt::format("{}{} ({} photo{}, {})", text.empty() ? "" : ", ", s.name, s.photos,
                        s.photos == 1 ? "" : "s", s.why);
  }
  if (stores.size() > kNamed) text += fmt::format(" and {} more", stores.size() - kNamed);
  return text;
}

std::string StoreChoice::text() const {
  std::string text = text_of(waits_for);
  if (strangers > 0) {
    text += fmt::format("{}{} store{} that {} not dialled yet", text.empty() ? "" : " and ",
                        strangers, strangers == 1 ? "" : "s", strangers == 1 ? "has" : "have");
  }
  if (text.empty()) {
    text = "a store: " +
           (left_out.empty() ? "none is known yet" : "none is here of " + text_of(left_out));
  }
  const auto& lacking = take.empty() && waits_for.empty() ? left_out : waits_for;
  const auto drained = std::ranges::find(lacking, "drained", &UnavailableStore::why);
  if (drained != lacking.end()) {
    text += "; ndtrain store drain " + drained->name + " --undo gives it work again";
  }
  return text;
}

StoreChoice choose_stores(const StoreSelection& meant, std::span<const StoreStatus> known,
                          std::chrono::nanoseconds timeout, bool now) {
  StoreChoice c;
  const std::vector<StoreStatus> candidates = meant_of(meant, known);
  const auto works = [](const StoreStatus& s) { return s.here && !s.drained; };
  const auto present = static_cast<size_t>(std::ranges::count_if(candidates, works));
  const size_t number = meant.number;
  const bool enough = number > 0 && present >= number;
  if (number > candidates.size() && !now) {
    c.strangers = static_cast<uint32_t>(number - candidates.size());
  }
  size_t chosen = 0;
  for (const StoreStatus& s : candidates) {
    if (works(s) && (number == 0 || chosen < number)) {
      ++chosen;
      if (s.ready) {
        c.take.push_back(s.name);
      } else {
        (now ? c.left_out : c.waits_for).push_back(apart(s, why_apart(s)));
      }
      continue;
    }
    const bool hope = !enough && !(s.drained && meant.all());
    const bool soon = s.away < timeout || c.strangers > 0;
    if (hope && soon && !now) {
      c.waits_for.push_back(apart(s, why_apart(s)));
    } else {
      c.left_out.push_back(apart(s, works(s) ? beyond(meant.number) : why_apart(s)));
    }
  }
  add_unknown(meant, known, c.left_out);
  return c;
}

std::vector<UnavailableStore> left_out(const StoreSelection& meant,
                                       std::span<const StoreStatus> known,
                                       std::span<const std::string> took) {
  std::vector<UnavailableStore> out;
  for (const StoreStatus& s : meant_of(meant, known)) {
    if (std::ranges::find(took, s.name) != took.end()) continue;
    const bool works = s.here && !s.drained;
    const std::string late = meant.number > 0 && took.size() >= meant.number
                                 ? beyond(meant.number)
                                 : "came after the job had begun";
    out.push_back(apart(s, works ? late : why_apart(s)));
  }
  add_unknown(meant, known, out);
  return out;
}

}  // namespace ndtrain::tuner
