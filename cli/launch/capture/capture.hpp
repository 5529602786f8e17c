#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/launch/job/format.hpp"

/// A command of the user's own is run with stand-ins for launchers, and what it would have started is kept as a file
/// that every reader of launch files takes. Tested by tests/launch/capture_test.cpp.
namespace plan {

/// A program that would have been started.
struct CapturedCall {
  std::vector<std::string> words{};                                ///< the program first
  std::vector<std::pair<std::string, std::string>> environment{};  ///< what differs from the capturing shell's
  std::string folder{};
  std::vector<std::string> launcher{};  ///< the options of srun or mpirun: `--nodes=4`
  std::string resolved{};               ///< the configuration that its own parser made of the words; empty: not asked
};

/// A configuration file that a call names, or that such a file names.
struct CapturedFile {
  std::string name{};
  std::string text{};
};

struct Capture {
  std::vector<std::string> command{};
  std::vector<std::string> slurm{};  ///< `--nodes=4`: options of sbatch, or of its header
  std::vector<CapturedCall> calls{};
  std::vector<CapturedFile> files{};
  std::vector<std::string> notes{};  ///< what could not be known
  int status = 0;                    ///< of the command
};

/// Runs `command` in a scratch folder that shows the current one, at most `seconds`. Fails where it cannot be started,
/// takes too long, or starts nothing that a stand-in knows. `resolve`: recorded programs of hydra's are run for their
/// configuration.
[[nodiscard]] Result<Capture> capture_command(const std::vector<std::string>& command, double seconds,
                                              bool resolve = false);

/// Schema plan-capture/1: one word a line.
[[nodiscard]] std::string capture_json(const Capture& capture);

/// Is the file one that `plan capture` wrote?
[[nodiscard]] bool is_capture(std::string_view text);
/// The captured job as a script whose words have the lines that they have in the file.
/// @param is_read whether a reader knows a file: what a program made of its words is then taken in their place
[[nodiscard]] Result<LaunchSource> read_capture(const std::string& path, const std::string& text, Recognises* is_read);

}  // namespace plan
