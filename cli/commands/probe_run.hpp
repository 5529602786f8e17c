#pragma once

#include "cli/request/flags/probe_options.hpp"
#include "cli/request/table/args.hpp"
#include "cli/terminal/streams.hpp"
#include "hwprobe/session/session.hpp"
#include "hwprobe/start/launcher.hpp"

namespace plan {

/// What measuring came to: a profile, perhaps partial, and why it ended early.
struct ProbeOutcome {
  HardwareProfile profile{};
  Errors failure{};
  bool interrupted = false;
};

/// The ranks of this job, as flags and launcher say. Without a launcher as many as this machine has GPUs.
[[nodiscard]] SessionOptions session_options(const Args& args, const ProbeOptions& options, const Identity& identity,
                                             const Machine& machine, const std::string& plugin);

/// Rank 0: meets the others and measures.
[[nodiscard]] Result<ProbeOutcome> run_measurement(const Args& args, const ProbeOptions& options,
                                                   const SessionOptions& session, const Machine& machine,
                                                   Streams& streams);

/// --check on rank 0: what all ranks would meet.
int run_check(SessionOptions session, bool json, Streams& streams);
/// What this rank says of itself for it.
[[nodiscard]] std::string own_look(const Args& args, const SessionOptions& session, const Machine& machine);

/// --transport-check on rank 0.
int run_transport_check(const Args& args, SessionOptions session, Streams& streams);

/// Every other rank: serves rank 0, and speaks only where rank 0 cannot.
int run_member(const SessionOptions& session, Streams& streams);

}  // namespace plan
