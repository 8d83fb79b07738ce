#include "ndp/jobs/exchange_files.h"

#include <fmt/format.h>

#include "framework/parallel/cost_profile_json.h"
#include "framework/parallel/plan_by_sizes.h"

namespace ndtrain::ndp {

std::string exchange_line(const std::string& asked, const ExchangeReport& report) {
  const std::string schedule(followed(asked, report.costs.has_value()));
  if (report.steps == 0) return schedule + ": too few steps to say what one takes";
  std::string line = fmt::format("{}: a step takes {:.4f} s", schedule, report.step_s);
  if (report.costs) line += fmt::format(" (predicted {:.4f})", report.predicted.step_s);
  line += fmt::format(", {:.4f} of it exposed communication", report.exposed_s);
  if (report.costs) line += fmt::format(" (predicted {:.4f})", report.predicted.exposed_s);
  return line + fmt::format("; rank {} is the slowest, which computes for {:.4f} s",
                            report.slowest_rank, report.computing_s);
}

void write_exchange(RunDirectory& run, const ExchangeReport& report) {
  run.write("parallel_plan.txt", report.plan.text() + "\n");
  if (report.costs) run.write("parallel_profile.json", to_json(*report.costs));
}

}  // namespace ndtrain::ndp
