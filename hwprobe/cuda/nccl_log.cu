// Lets NCCL say what it chooses, in a file of its own: on stdout it would break the probe's output.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {

NcclLog::~NcclLog() {
  if (file_ >= 0) close(file_);
  if (!path_.empty()) unlink(path_.c_str());
}

void NcclLog::ask_for() {
  if (!path_.empty() || std::getenv("NCCL_DEBUG") != nullptr) return;
  const char* folder = std::getenv("TMPDIR");
  path_ = std::string(folder == nullptr ? "/tmp" : folder) + "/plan-nccl-" + std::to_string(getpid()) + ".log";
  setenv("NCCL_DEBUG", "INFO", 0);
  setenv("NCCL_DEBUG_SUBSYS", "INIT,TUNING", 0);
  setenv("NCCL_DEBUG_FILE", path_.c_str(), 0);
}

void NcclLog::read() {
  choice.clear();
  if (path_.empty()) return;
  if (file_ < 0) file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) return;
  unlink(path_.c_str());  // NCCL writes on, we read on, and nothing is left behind
  char bytes[65536];
  for (ssize_t got = ::read(file_, bytes, sizeof bytes); got > 0; got = ::read(file_, bytes, sizeof bytes)) {
    rest_.append(bytes, static_cast<size_t>(got));
    for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      const std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      if (const auto chosen = plan::read_nccl_choice(line)) choice = chosen->algorithm + "/" + chosen->protocol;
      if (const auto seen = plan::read_nccl_channels(line)) channels = *seen;
    }
  }
}

}  // namespace plan_cuda
