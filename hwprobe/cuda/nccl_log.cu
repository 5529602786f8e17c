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
  std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/plan-nccl-XXXXXX";
  file_ = mkostemp(path.data(), O_CLOEXEC);  // ours alone, and NCCL writes to it by its name
  if (file_ < 0) return;
  path_ = path;
  setenv("NCCL_DEBUG", "INFO", 0);
  setenv("NCCL_DEBUG_SUBSYS", "INIT,TUNING", 0);
  setenv("NCCL_DEBUG_FILE", path_.c_str(), 0);
}

void NcclLog::read() {
  choices_.clear();
  if (file_ < 0) return;
  char bytes[65536];
  for (ssize_t got = ::read(file_, bytes, sizeof bytes); got > 0; got = ::read(file_, bytes, sizeof bytes)) {
    rest_.append(bytes, static_cast<size_t>(got));
    for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      const std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      if (auto chosen = plan::read_nccl_choice(line)) choices_.push_back(*std::move(chosen));
      if (const auto seen = plan::read_nccl_channels(line)) channels = *seen;
    }
  }
}

std::string NcclLog::choice(const std::string& op, size_t bytes, size_t share) const {
  for (auto i = choices_.rbegin(); i != choices_.rend(); ++i) {
    const auto logged = static_cast<size_t>(i->bytes);
    if (!op.empty() && i->op == op && (logged == bytes || logged == share)) return i->algorithm + "/" + i->protocol;
  }
  return {};
}

}  // namespace plan_cuda
