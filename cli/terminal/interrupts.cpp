// Interrupts of a measurement: the first lets it end in order instead of ending the process.
#include "cli/terminal/interrupts.hpp"

#include <csignal>

namespace plan {
namespace {

volatile std::sig_atomic_t interrupted_by = 0;  // a signal handler can reach nothing else
void note_signal(int signal) { interrupted_by = signal; }

}  // namespace

SignalWatch::SignalWatch()
    : interrupt_(std::signal(SIGINT, note_signal)), terminate_(std::signal(SIGTERM, note_signal)) {}

SignalWatch::~SignalWatch() {
  std::signal(SIGINT, interrupt_);
  std::signal(SIGTERM, terminate_);
}

bool SignalWatch::interrupted() { return interrupted_by != 0; }

}  // namespace plan
