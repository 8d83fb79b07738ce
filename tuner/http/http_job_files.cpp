#include "tuner/http/http_job_files.h"

#include "framework/core/json.h"
#include "ndp/jobs/notes.h"
#include "ndp/jobs/run_summary.h"
#include "tuner/http/http_answer.h"
#include "tuner/jobs/job_files.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// A report has its pictures and styles in itself, and needs no script.
constexpr const char* kReportPolicy =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

HttpResponse unreadable(const Status& why) { return http_error(500, why.message()); }

HttpResponse trace(Fs& fs, const std::string& directory, const std::string& job) {
  const Result<std::string> text = fs.read(join(directory, "trace.json"));
  if (text.ok()) return {.body = *text};
  if (text.status().code() != Code::kNotFound) return unreadable(text.status());
  return http_error(404, "job " + job + " has no trace: it is written when a job is done");
}

HttpResponse report(Fs& fs, const std::string& directory, const std::string& job) {
  Result<std::string> html = fs.read(join(directory, "run/report.html"));
  if (html.status().code() == Code::kNotFound) {
    return http_error(404, "job " + job +
                               " has no report: a fine-tuning with photos for "
                               "validation writes one when it is done");
  }
  if (!html.ok()) return unreadable(html.status());
  return {.body = std::move(*html),
          .type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy", kReportPolicy}}};
}

// Of a training that goes on, too: nothing is locked, and a torn last line is left out.
HttpResponse run(Fs& fs, const std::string& directory, const std::string& job) {
  const std::string run = join(directory, "run");
  const Result<std::string> metrics = fs.read(join(run, "metrics.jsonl"));
  if (metrics.status().code() == Code::kNotFound) {
    return http_error(404, "job " + job +
                               " has no curves: a fine-tuning writes them, from its "
                               "first epoch on");
  }
  if (!metrics.ok()) return unreadable(metrics.status());
  const Result<Confusion> confusion = read_confusion(fs, run);
  if (!confusion.ok()) return unreadable(confusion.status());
  const Result<Notes> notes = read_notes(fs, directory);
  if (!notes.ok()) return unreadable(notes.status());
  int64_t damaged = 0;
  Json json = {{"epochs", epochs_json(parse_metrics(*metrics, &damaged))},
               {"classes", confusion->classes},
               {"confusion", confusion->counts}};
  if (damaged > 0) json["damaged_rows"] = damaged;
  json.update(ndp::to_json(*notes));
  return answer(json);
}

HttpResponse quarantine(Fs& fs, const std::string& directory, const std::string& job) {
  if (!fs.exists(directory)) return http_error(404, "there is no job " + job);
  const auto photos = JobFiles(fs, directory).load_quarantine();
  if (!photos.ok()) return unreadable(photos.status());
  Json all = Json::array();
  for (const UnreadablePhoto& p : *photos) {
    all.push_back({{"id", p.photo ? to_hex(*p.photo) : ""},
                   {"store", p.store},
                   {"path", p.path},
                   {"why", p.why}});
  }
  return answer(all);
}

}  // namespace

std::vector<HttpServer::Route> job_file_routes(Fs& fs, const std::string& jobs) {
  const auto of_job = [&fs, jobs](auto f) {
    return [&fs, jobs, f](const HttpRequest& r) {
      const std::string& job = r.captures.at(0);
      return f(fs, join(jobs, job), job);
    };
  };
  return {{"GET", "/jobs/([0-9]{1,18})/run", Role::kViewer, of_job(run)},
          {"GET", "/jobs/([0-9]{1,18})/report", Role::kViewer, of_job(report)},
          {"GET", "/jobs/([0-9]{1,18})/trace", Role::kViewer, of_job(trace)},
          {"GET", "/jobs/([0-9]{1,18})/quarantine", Role::kViewer, of_job(quarantine)}};
}

}  // namespace ndtrain::tuner
