#include "tuner/http/http_members.h"

#include "tuner/http/http_answer.h"

namespace ndtrain::tuner {
using namespace ndp;

HttpServer::Route members_route(const TunerMembers& members) {
  return {"GET", "/members", Role::kViewer, [&members](const HttpRequest&) {
            Json all = Json::array();
            for (const MemberRecord& m : members.members()) {
              all.push_back({{"member", m.name},
                             {"peer", m.peer},
                             {"site", m.site},
                             {"version", m.version},
                             {"numerics", m.numerics},
                             {"job", m.job},
                             {"failure", m.failure}});
            }
            return answer(all);
          }};
}

void add_metrics(const TunerMembers& members, MetricsText& to) {
  for (const MemberRecord& m : members.members()) {
    to.gauge("ndtrain_member_trains", "Whether the member trains (1) or waits to be asked (0)",
             {{"member", m.name}}, m.job != 0);
  }
  const GroupFigures f = members.figures();
  to.gauge("ndtrain_training_tuners", "Tuners of the last training by several", {}, f.tuners);
  to.gauge("ndtrain_training_lost", "Of these lost on the way", {}, f.lost);
  to.gauge("ndtrain_training_step_seconds", "What a step of it takes; 0: not measured", {},
           f.step_s);
  to.gauge("ndtrain_training_exposed_seconds", "What this Tuner waited in it for the others", {},
           f.exposed_s);
  to.gauge("ndtrain_training_row_bytes", "Rows that it has sent to members", {},
           static_cast<double>(f.row_bytes));
  to.gauge("ndtrain_training_step_sent_bytes",
           "Over slow links: what it sends of its gradients to each other Tuner in a step", {},
           static_cast<double>(f.step_sent_bytes));
  const Telemetry& t = f.last_step;
  for (const auto& [direction, mbps] :
       {std::pair("send", t.send_mbps), std::pair("receive", t.receive_mbps)}) {
    to.gauge(
        "ndtrain_training_link_mbps",
        "Over slow links: what the link took while gradients were under way, the best 100 ms of "
        "a second, 10^6 bits a second; 0: not measured",
        {{"direction", direction}}, mbps);
  }
  for (const auto& [part, ms] :
       {std::pair("forward", t.forward_ms), std::pair("backward", t.backward_ms),
        std::pair("wait", t.wait_ms())}) {
    to.gauge("ndtrain_training_step_part_seconds",
             "Over slow links: what this Tuner computed and waited in one of the last steps",
             {{"part", part}}, ms / 1e3);
  }
  if (f.slowest.empty()) return;
  to.gauge("ndtrain_training_slowest", "Who computes longest in a step", {{"tuner", f.slowest}}, 1);
}

}  // namespace ndtrain::tuner
