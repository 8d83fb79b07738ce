// What people and their tools ask of a Tuner about labels over HTTP; docs/http.md lists it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/json_fwd.h"
#include "ndp/http/http_server.h"
#include "ndp/labels/label_db.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {
using namespace ndp;

// Has a connection of its own to the database and works on the threads of HTTP, so that a large
// question holds up neither the service nor a job. A version is named by the Tuner's number, the
// beginning of its content in hex, or "in-force".
class HttpLabels {
 public:
  // All outlive the routes, as this does.
  HttpLabels(std::string url, const Versions& versions, Clock& clock)
      : url_(std::move(url)), versions_(versions), clock_(clock) {}

  std::vector<HttpServer::Route> routes();

 private:
  struct Open;

  template <typename F>
  HttpHandler on(F f);
  LabelDb& db();
  Json query(const Open& o, const HttpRequest& request) const;
  Json stats(const Open& o) const;
  Json review(const Open& o, const HttpRequest& request) const;
  Json accuracy(const Open& o, const HttpRequest& request) const;
  Json diff(const Open& o, const HttpRequest& request) const;
  Json confusion(const Open& o, const HttpRequest& request) const;
  Json new_photos(const Open& o) const;
  LabelRow current(const Open& o, const HttpRequest& request) const;  // of the photo named
  Json history(const Open& o, const HttpRequest& request) const;
  Json set(const Open& o, const HttpRequest& request) const;
  std::string label_of(const HttpRequest& request);  // current, for the audit log; "": none
  static Json row_json(const Open& o, const LabelRow& row);
  int64_t version_named(const Open& o, const std::string& name) const;

  const std::string url_;
  const Versions& versions_;
  Clock& clock_;
  std::mutex mutex_;  // of db_
  std::unique_ptr<LabelDb> db_;
};

}  // namespace ndtrain::tuner
