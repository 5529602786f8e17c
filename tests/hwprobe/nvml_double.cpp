// A libnvidia-ml.so.1 for tests: NVML_DOUBLE=hgx is a node of eight H100, `one` a busy GPU in a narrow slot with MIG,
// `broken` a driver that does not answer. It lacks some functions, as old drivers do.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {
std::string_view kind() {
  const char* value = std::getenv("NVML_DOUBLE");
  return value == nullptr ? "hgx" : value;
}
unsigned index_of(void* device) { return static_cast<unsigned>(reinterpret_cast<std::size_t>(device) - 1); }
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
int nvmlSystemGetDriverVersion(char* out, unsigned size) { return std::snprintf(out, size, "580.95.05"), 0; }
int nvmlSystemGetCudaDriverVersion_v2(int* v) {  // NVML_DOUBLE_CUDA=12020: an old driver
  const char* cuda = std::getenv("NVML_DOUBLE_CUDA");
  return *v = cuda == nullptr ? 13000 : std::atoi(cuda), 0;
}
int nvmlDeviceGetCount_v2(unsigned* n) {
  return *n = kind() == "hgx" || kind() == "mixed" ? 8 : kind() == "one" ? 1 : 0, 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** d) {
  return *d = reinterpret_cast<void*>(static_cast<std::size_t>(i + 1)), 0;
}
int nvmlDeviceGetName(void* d, char* out, unsigned size) {
  const bool other = kind() == "mixed" && index_of(d) == 1;
  return std::snprintf(out, size, "%s", other ? "NVIDIA A100-SXM4-80GB" : "NVIDIA H100 80GB HBM3"), 0;
}
int nvmlDeviceGetUUID(void* d, char* out, unsigned size) {
  return std::snprintf(out, size, "GPU-%08u-0000-0000-0000-000000000000", index_of(d)), 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* m) { return *m = {85520809984ull, 85028175872ull, 492634112ull}, 0; }
int nvmlDeviceGetPciInfo_v3(void* d, Pci* p) {
  std::memset(p, 0, sizeof *p);
  p->id = 0x233010deu;
  std::snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", 0x1b + index_of(d));
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) { return *major = 9, *minor = 0, 0; }
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* v) {
  // NVML_DOUBLE_IDLE=LIBRARY: until this process works with the GPU through that library, its link rests.
  const char* works = std::getenv("NVML_DOUBLE_IDLE");
  return *v = works != nullptr && dlopen(works, RTLD_NOW | RTLD_NOLOAD) == nullptr ? 1 : 5, 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* v) { return *v = 5, 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* v) { return *v = kind() == "one" ? 8 : 16, 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* v) { return *v = 16, 0; }
int nvmlDeviceGetNvLinkState(void*, unsigned link, int* on) { return *on = link < 18 && kind() == "hgx", 0; }
int nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* next) { return *now = *next = kind() == "one", 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* n, void*) {
  return *n = kind() == "one" ? 2 : 0, kind() == "one" ? 7 : 0;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* v) { return *v = type == 1 ? 1755 : 2619, 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* v) { return *v = 0x4, 0; }
int nvmlDeviceGetPowerUsage(void*, unsigned* v) { return *v = 698000, 0; }
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
  return *level = index_of(a) / 4 == index_of(b) / 4 ? 40 : 50, 0;
}
}
