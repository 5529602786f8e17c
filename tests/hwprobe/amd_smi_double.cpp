// A libamd_smi.so for tests: AMD_SMI_DOUBLE=board is a node of eight MI300X, `mi355x` one of eight MI355X, listed in
// another order than that of the bus; `one` a busy GPU; `broken` a driver that does not answer. NVML_DOUBLE=mixed makes
// the second an MI250X, as the device that answers does. AMD_SMI_DOUBLE_BUS is the place of the first on the bus, a
// number as the library gives it. It lacks some functions, as old releases do.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {
std::string_view kind() {
  const char* value = std::getenv("AMD_SMI_DOUBLE");
  return value == nullptr ? "board" : value;
}
std::uint32_t gpus() { return kind() == "one" ? 1 : kind() == "board" || kind() == "mi355x" ? 8 : 0; }
/// Handles of sockets count from 100, those of GPUs from 1; GPU 0 is the last socket's.
char handles[256];
void* handle(std::size_t number) { return handles + number; }
unsigned gpu_of(void* device) { return static_cast<unsigned>(static_cast<char*>(device) - handles - 1); }
}  // namespace

extern "C" {
int amdsmi_init(std::uint64_t flags) { return kind() == "broken" || flags != 2 ? 34 : 0; }
int amdsmi_shut_down() { return 0; }
int amdsmi_get_socket_handles(std::uint32_t* count, void** sockets) {
  for (std::uint32_t i = 0; sockets != nullptr && i < *count; ++i) sockets[i] = handle(100 + i);
  return *count = gpus(), 0;
}
int amdsmi_get_processor_handles(void* socket, std::uint32_t* count, void** processors) {
  if (processors != nullptr && *count > 0) processors[0] = handle(gpus() + 99 - gpu_of(socket));
  return *count = 1, 0;
}
int amdsmi_get_gpu_device_bdf(void* gpu, std::uint64_t* bits) {
  const char* first = std::getenv("AMD_SMI_DOUBLE_BUS");
  const std::uint64_t begin = first == nullptr ? 0x1b << 8 : std::strtoull(first, nullptr, 10);
  return *bits = begin + (static_cast<std::uint64_t>(gpu_of(gpu)) << 8), 0;
}
int amdsmi_get_gpu_device_uuid(void* gpu, unsigned* size, char* text) {
  return std::snprintf(text, *size, "GPU-%016u", gpu_of(gpu)), 0;
}
int amdsmi_get_gpu_asic_info(void* gpu, char* name) {
  const char* mixed = std::getenv("NVML_DOUBLE");
  const bool other = mixed != nullptr && std::string_view(mixed) == "mixed" && gpu_of(gpu) == 1;
  const bool newer = kind() == "mi355x";
  return std::strcpy(name, other ? "AMD Instinct MI250X" : newer ? "AMD Instinct MI355X" : "AMD Instinct MI300X"), 0;
}
int amdsmi_get_gpu_memory_total(void*, int kind_of, std::uint64_t* bytes) {
  return *bytes = kind_of == 0 ? 206141652992ull : 0, 0;
}
int amdsmi_get_gpu_memory_usage(void*, int, std::uint64_t* bytes) { return *bytes = 297795584ull, 0; }
int amdsmi_get_gpu_activity(void*, std::uint32_t* activity) {
  return activity[0] = kind() == "one" ? 97 : 0, activity[1] = 5, activity[2] = 0, 0;
}
int amdsmi_get_gpu_process_list(void*, std::uint32_t* count, void*) { return *count = kind() == "one" ? 3 : 0, 0; }
int amdsmi_get_clock_info(void*, int type, std::uint32_t* clock) { return *clock = type == 0 ? 2100 : 1300, 0; }
int amdsmi_get_power_info(void*, std::uint32_t* power) {
  return power[0] = 0xffff'ffffu, power[1] = 742, 0;  // this GPU tells its average alone
}
}
