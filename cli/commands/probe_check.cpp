// `plan probe --check`: whether a probe would work, before one is paid for. Tested by
// tests/hwprobe/probe_ranks_test.cpp and tests/hwprobe/check_test.cpp.
#include <algorithm>

#include "cli/commands/commands.hpp"
#include "cli/commands/probe_run.hpp"
#include "cli/report/probe/probe_check.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "hwprobe/node/visible.hpp"

namespace plan {

std::string own_look(const Args& args, const SessionOptions& session, const Machine& machine) {
  Surroundings at{.machine = machine,
                  .gpu = -1,
                  .world = session.identity.world,
                  .plugin = session.plugin,
                  .processors = session.processors};
  if (!machine.gpus.empty()) {
    at.gpu = session.setup.device;
    at.beside = stands_beside(session.processors, machine.gpus[static_cast<std::size_t>(at.gpu)]);
  }
  at.named[static_cast<std::size_t>(Vendor::CublasLt)].path = args.cublas_lib.value_or("");
  at.named[static_cast<std::size_t>(Vendor::Nccl)].path = args.nccl_lib.value_or("");
  at.named[static_cast<std::size_t>(Vendor::Cudnn)].path = args.cudnn_lib.value_or("");
  at.allow_busy = args.allow_busy;
  return pack_check(check_rank(at, process_variables()));
}

int run_check(SessionOptions options, bool json, Streams& streams) {
  Result<Session> session = Session::begin(std::move(options));
  if (!session) {
    report_errors(session.error(), streams);
    return session.error()[0].code == "interrupted" ? kInterrupted : kNotMeasured;
  }
  std::vector<CheckedRank> ranks;
  for (std::size_t i = 0; i < session->ranks().size(); ++i) {
    const RankHello& hello = session->ranks()[i];
    Result<RankCheck> check = unpack_check(hello.look);
    if (!check) {
      session->stop(check.error()[0].message);
      report_errors(check.error(), streams);
      return kNotMeasured;
    }
    ranks.push_back({session->placement().order[i], hello, *std::move(check)});
  }
  session->stop("");
  const std::vector<CheckFinding> findings = check_job(ranks, session->obstacles());
  streams.out = json ? check_json(ranks, findings) : check_text(ranks, findings, streams.out_terminal);
  return would_measure(findings) ? kYes : kNo;
}

}  // namespace plan
