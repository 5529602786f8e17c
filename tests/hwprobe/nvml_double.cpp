// A libnvidia-ml.so.1 for tests: NVML_DOUBLE=hgx is a node of eight H100, `one` a busy GPU in a narrow slot with MIG,
// `broken` a driver that does not answer. NVML_DOUBLE_SAYS="gen=3 link_width=no" gives numbers of its GPUs by name, and
// names what it cannot tell. Built with OLD_DRIVER it lacks every function that lists no GPU.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {
std::string_view kind() {
  const char* value = std::getenv("NVML_DOUBLE");
  return value == nullptr ? "hgx" : value;
}
/// What NVML_DOUBLE_SAYS says under a name, else `usual`; and whether the driver can tell it, 0 or NVML's "not
/// supported".
constexpr int kNotSupported = 3;
int tell(std::string_view name, unsigned long long usual, unsigned long long& number) {
  const char* words = std::getenv("NVML_DOUBLE_SAYS");
  const std::string all = words == nullptr ? " " : " " + std::string(words) + " ";
  const std::size_t at = all.find(" " + std::string(name) + "=");
  if (at == std::string::npos) return number = usual, 0;
  const char* value = all.c_str() + at + name.size() + 2;
  if (*value == 'n') return kNotSupported;
  return number = std::strtoull(value, nullptr, 10), 0;
}
template <class Number>
int tell(std::string_view name, unsigned long long usual, Number* out) {
  unsigned long long number = 0;
  const int status = tell(name, usual, number);
  if (status == 0) *out = static_cast<Number>(number);
  return status;
}
bool says(std::string_view name) {
  unsigned long long number = 0;
  return tell(name, 0, number) == 0;
}
[[maybe_unused]] unsigned index_of(void* device) {
  return static_cast<unsigned>(reinterpret_cast<std::size_t>(device) - 1);
}
struct Memory {
  unsigned long long total, free, used;
};
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
};
}  // namespace

extern "C" {
int nvmlInit_v2() { return kind() == "broken" ? 999 : 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* n) {
  return *n = kind() == "hgx" || kind() == "mixed" ? 8 : kind() == "one" ? 1 : 0, 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** d) {
  return *d = reinterpret_cast<void*>(static_cast<std::size_t>(i + 1)), 0;
}
#ifndef OLD_DRIVER
int nvmlSystemGetDriverVersion(char* out, unsigned size) { return std::snprintf(out, size, "580.95.05"), 0; }
int nvmlSystemGetCudaDriverVersion_v2(int* v) {  // NVML_DOUBLE_CUDA=12020: an old driver
  const char* cuda = std::getenv("NVML_DOUBLE_CUDA");
  return *v = cuda == nullptr ? 13000 : std::atoi(cuda), 0;
}
int nvmlDeviceGetName(void* d, char* out, unsigned size) {
  if (!says("name")) return kNotSupported;
  const bool other = kind() == "mixed" && index_of(d) == 1;
  return std::snprintf(out, size, "%s", other ? "NVIDIA A100-SXM4-80GB" : "NVIDIA H100 80GB HBM3"), 0;
}
int nvmlDeviceGetUUID(void* d, char* out, unsigned size) {
  if (!says("uuid")) return kNotSupported;
  return std::snprintf(out, size, "GPU-%08u-0000-0000-0000-000000000000", index_of(d)), 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* m) {
  return tell("total", 85520809984ull, &m->total) + tell("free", 85028175872ull, &m->free) +
         tell("used", 492634112ull, &m->used);
}
int nvmlDeviceGetPciInfo_v3(void* d, Pci* p) {
  std::memset(p, 0, sizeof *p);
  if (const int status = tell("id", 0x233010deu, &p->id); status != 0) return status;
  std::snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", 0x1b + index_of(d));
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  return tell("major", 9, major) + tell("minor", 0, minor);
}
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* v) {
  // NVML_DOUBLE_IDLE=LIBRARY: until this process works with the GPU through that library, its link rests.
  const char* works = std::getenv("NVML_DOUBLE_IDLE");
  return tell("gen", works != nullptr && dlopen(works, RTLD_NOW | RTLD_NOLOAD) == nullptr ? 1 : 5, v);
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* v) { return tell("gen_max", 5, v); }
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* v) { return tell("width", kind() == "one" ? 8 : 16, v); }
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* v) { return tell("width_max", 16, v); }
int nvmlDeviceGetNvLinkState(void*, unsigned link, int* on) {
  unsigned links = 0;
  const int status = tell("links", kind() == "hgx" ? 18 : 0, &links);
  return *on = link < links, status;
}
int nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* next) {
  return tell("mig", kind() == "one", now) + tell("mig_next", kind() == "one", next);
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* rates) {  // of the GPU, of its memory
  return tell("busy", 0, &rates[0]) + tell("memory_busy", 0, &rates[1]);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* n, void*) {
  const int status = tell("processes", kind() == "one" ? 2 : 0, n);  // 7: they are more than there is room for
  return status != 0 ? status : *n > 0 ? 7 : 0;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* v) {
  return type == 1 ? tell("sm", 1755, v) : type == 2 ? tell("memory_clock", 2619, v) : kNotSupported;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* v) { return tell("reasons", 0x4, v); }
int nvmlDeviceGetPowerUsage(void*, unsigned* v) { return tell("milliwatts", 698000, v); }
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* v) {
  const char* words = std::getenv("NVML_DOUBLE_SAYS");  // an old driver lacks it, but where a test asks for it
  return words == nullptr || sensor != 0 ? kNotSupported : tell("celsius", 0, v);
}
// NVML_DOUBLE_CLIQUE=3: a rack whose NVLink reaches over its hosts.
struct Fabric {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};
int nvmlDeviceGetGpuFabricInfoV(void*, Fabric* f) {
  const char* clique = std::getenv("NVML_DOUBLE_CLIQUE");
  const unsigned version = f->version;
  *f = {version, {}, 0, 0, 3, 0};
  if (clique != nullptr) f->cluster[0] = 0xab, f->clique = static_cast<unsigned>(std::atoi(clique));
  return version == (sizeof(Fabric) | 2u << 24) ? 0 : 3;
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* level) {
  return tell("path", index_of(a) / 4 == index_of(b) / 4 ? 40 : 50, level);
}
#endif
}
