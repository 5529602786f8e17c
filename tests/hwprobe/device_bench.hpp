#pragma once

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "device/truth.hpp"
#include "presets/hardware.hpp"

/// The whole probe, with the plugin's own code, on a device that answers: its operations take the times of
/// device/truth.hpp, so that every figure of the profile is known beforehand; and its faults are chosen. Built twice:
/// for the plugin that measures NVIDIA's GPUs, and with ANSWERING_AMD for the one that measures AMD's.
namespace device_bench {

namespace fs = std::filesystem;

inline std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Without line breaks, which depend on the width of names.
inline std::string one_line(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

#ifdef ANSWERING_AMD
inline constexpr const char *kManagement = "libamd_smi.so", *kChosen = "HIP_VISIBLE_DEVICES",
                            *kOne = "GPU-0000000000000005", *kPreset = "mi300x", *kLink = "448", *kHalfLink = "224",
                            *kBlas = "hipBLASLt", *kNccl = "RCCL";
inline constexpr double kForwardFp8 = 1.6;  // its matrix cores know one way to sum
#else
inline constexpr const char *kManagement = "libnvidia-ml.so.1", *kChosen = "CUDA_VISIBLE_DEVICES",
                            *kOne = "GPU-00000005", *kPreset = "h100-sxm", *kLink = "450", *kHalfLink = "225",
                            *kBlas = "cuBLASLt", *kNccl = "NCCL";
inline constexpr double kForwardFp8 = 1.9;
#endif

struct Outcome {
  int status = -1;
  std::string err, ledger;
  double device_seconds = 0;  ///< that passed on the clock of rank 0's device
  std::optional<plan::HardwareProfile> profile{};
};

struct Bench {
  fs::path folder = fs::temp_directory_path() / ("plan-device-" + std::to_string(getpid()));
  Bench() {
    fs::remove_all(folder);
    fs::create_directories(folder);
    fs::create_symlink(ANSWERING_MANAGEMENT, folder / kManagement);
  }
  ~Bench() { fs::remove_all(folder); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// The program's words up to its flags, as this bench runs it.
  static std::string probe() {
    std::string all = std::string(PLAN_BINARY) + " probe --nccl-lib " ANSWERING_NCCL " --cublas-lib " ANSWERING_CUBLAS;
#ifdef ANSWERING_CUDNN
    all += " --cudnn-lib " ANSWERING_CUDNN;
#endif
    return all + " -o out.yaml ";
  }
  /// The products of one GPU, and attention, as far as some seconds reach.
  static std::string some() { return probe() + "--dtypes bf16 --budget 20s --quiet "; }

  /// What a profile of one GPU lacks: kernels, links, collectives. All of it, however slow this machine is.
  std::string rest() const {
    if (!fs::exists(folder / "one.yaml")) {
      static_cast<void>(run("", probe() + "--dtypes bf16 --budget 300s --quiet", std::string(kChosen) + "=0"));
      fs::rename(folder / "out.yaml", folder / "one.yaml");
    }
    return probe() + "--resume one.yaml --dtypes bf16 --budget 300s ";
  }

  /// A shell command with the device in its environment; `answers` chooses faults. It ends within five minutes.
  Outcome run(const std::string& answers, const std::string& command, const std::string& variables = "") const {
    fs::remove(folder / "out.yaml");
    fs::remove(folder / "ledger");
    std::vector<fs::path> left;  // of another run's device: its clocks must not go on in this one
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("answering-")) left.push_back(entry.path());
    for (const fs::path& file : left) fs::remove(file);
    const std::string environment = fmt::format(
        "cd {0} && LD_LIBRARY_PATH={0} TMPDIR={0} DEVICE_LEDGER={0}/ledger PLAN_PROBE_PLUGIN={1} "
        "NVML_DOUBLE=hgx DEVICE_ANSWERS='{2}' {3} timeout 300 sh -c '{4}' > out.txt 2> err.txt",
        folder.string(), ANSWERING_PLUGIN, answers, variables, command);
    const int status = std::system(environment.c_str());
    Outcome out{WIFEXITED(status) ? WEXITSTATUS(status) : -1, one_line(read(folder / "err.txt")),
                read(folder / "ledger")};
    std::int64_t nanoseconds = 0;
    std::ifstream(folder / "answering-clock-0").read(reinterpret_cast<char*>(&nanoseconds), sizeof nanoseconds);
    out.device_seconds = 1e-9 * static_cast<double>(nanoseconds);
    if (fs::exists(folder / "out.yaml"))
      if (auto profile = plan::read_hardware(read(folder / "out.yaml"), "out.yaml")) out.profile = *std::move(profile);
    return out;
  }

  /// Does the planner take the profile that the last run left?
  bool planned_with() const {
    fs::copy_file(folder / "out.yaml", folder / "left.yaml", fs::copy_options::overwrite_existing);
    const int status =
        run("", std::string(PLAN_BINARY) + " estimate --model 8b --gpus 8 --layout tp2,zero1 --profile left.yaml")
            .status;
    return status == 0 || status == 1;
  }
};

/// The variable that leaves the first GPUs.
inline std::string gpus(int count) {
  std::string list = std::string(kChosen) + "=0";
  for (int i = 1; i < count; ++i) list += fmt::format(",{}", i);
  return list;
}

/// Ranks of several hosts on this one: the host of rank r is hosts[r].
inline std::string several_hosts(const std::vector<std::string>& hosts, const std::string& probe) {
  std::map<std::string, int> local;
  std::string command;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    const int place = local[hosts[r]]++;
    const auto beside = std::count(hosts.begin(), hosts.end(), hosts[r]);
    command += fmt::format(
        "NCCL_HOSTID={} PLAN_RANK={} PLAN_WORLD={} PLAN_LOCAL_RANK={} PLAN_LOCAL_WORLD={} PLAN_JOB=j {} "
        "--rendezvous file:. {} ",
        hosts[r], r, hosts.size(), place, beside, probe, r == 0 ? "& zero=$!;" : "> /dev/null 2>&1 &");
  }
  return command + "wait $zero";
}

/// Is a measured figure its true one, as far as three per cent?
#define CHECK_WITHIN(measured, truth) CHECK((measured) == doctest::Approx(truth).epsilon(0.03))

/// Of which rank's words a point was skipped.
inline bool skipped_for(const plan::HardwareProfile& profile, const std::string& what, const std::string& words) {
  return std::any_of(profile.skipped.begin(), profile.skipped.end(), [&](const plan::ProfileSkip& skip) {
    return skip.what.starts_with(what) && one_line(skip.reason).find(words) != std::string::npos;
  });
}
/// Why points were skipped, for the words of a test that fails.
inline std::string reasons(const plan::HardwareProfile& profile) {
  std::map<std::string, std::string> seen;
  for (const plan::ProfileSkip& skip : profile.skipped) seen.emplace(skip.reason, skip.what);
  std::string all;
  for (const auto& [reason, what] : seen) all += what + ": " + reason + "; ";
  return all;
}
inline bool warned_of(const plan::HardwareProfile& profile, const std::string& code, const std::string& where = "") {
  return std::any_of(profile.warnings.begin(), profile.warnings.end(), [&](const plan::ProfileWarning& warning) {
    return warning.code == code && warning.where.find(where) != std::string::npos;
  });
}

}  // namespace device_bench
