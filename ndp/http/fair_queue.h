// Which of the requests that wait goes next. A pure state machine; one thread.
//
// Those of health go first, then an operator's. Of the others a person's go before uploads, four to
// one while both wait. Within a class clients take turns, so that who asks a hundred times makes
// nobody else wait a hundred times; of one client they keep their order.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ndtrain::ndp {

enum class RequestClass : uint8_t { kHealth, kOperator, kPerson, kUpload };
inline constexpr size_t kRequestClasses = 4;

template <typename Task>
class FairQueue {
 public:
  static constexpr int kPersonsForAnUpload = 4;

  void push(RequestClass of, const std::string& client, Task task) {
    line(of).push(client, std::move(task));
    ++size_;
  }
  // Of the classes up to `last`. Nothing: none of these waits.
  std::optional<std::pair<RequestClass, Task>> pop(RequestClass last) {
    const std::optional<RequestClass> of = next(last);
    if (!of) return std::nullopt;
    persons_in_a_row_ = *of == RequestClass::kPerson   ? persons_in_a_row_ + 1
                        : *of == RequestClass::kUpload ? 0
                                                       : persons_in_a_row_;
    --size_;
    return std::pair(*of, line(*of).pop());
  }
  bool has(RequestClass last) const { return next(last).has_value(); }
  size_t size() const { return size_; }

 private:
  class Line {
   public:
    bool empty() const { return turns_.empty(); }
    void push(const std::string& client, Task task) {
      std::deque<Task>& own = tasks_[client];
      if (own.empty()) turns_.push_back(client);
      own.push_back(std::move(task));
    }
    Task pop() {
      const auto own = tasks_.find(turns_.front());
      Task task = std::move(own->second.front());
      own->second.pop_front();
      if (own->second.empty()) {
        tasks_.erase(own);
      } else {
        turns_.push_back(own->first);
      }
      turns_.pop_front();
      return task;
    }

   private:
    std::deque<std::string> turns_;  // clients that wait, each once
    std::map<std::string, std::deque<Task>> tasks_;
  };

  Line& line(RequestClass of) { return lines_[static_cast<size_t>(of)]; }
  bool waits(RequestClass of, RequestClass last) const {
    return of <= last && !lines_[static_cast<size_t>(of)].empty();
  }
  std::optional<RequestClass> next(RequestClass last) const {
    const bool upload_is_due = persons_in_a_row_ >= kPersonsForAnUpload;
    for (const RequestClass of : {RequestClass::kHealth, RequestClass::kOperator,
                                  upload_is_due ? RequestClass::kUpload : RequestClass::kPerson,
                                  RequestClass::kPerson, RequestClass::kUpload}) {
      if (waits(of, last)) return of;
    }
    return std::nullopt;
  }

  std::array<Line, kRequestClasses> lines_;
  int persons_in_a_row_ = 0;  // since the last upload
  size_t size_ = 0;
};

}  // namespace ndtrain::ndp
