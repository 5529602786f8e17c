// A libamd_smi.so for tests: AMD_SMI_DOUBLE=board is a node of eight MI300X, `mi355x` one of eight MI355X, listed in
// another order than that of the bus; `one` a busy GPU; `broken` a driver that does not answer. NVML_DOUBLE=mixed makes
// the second an MI250X, as the device that answers does. AMD_SMI_DOUBLE_BUS is the place of the first on the bus, a
// number as the library gives it. AMD_SMI_DOUBLE_SAYS="busy=3 bus=no" gives numbers of its GPUs by name, and names what
// it cannot tell. Built with OLD_DRIVER it lacks every function that lists no GPU.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {
std::string_view kind() {
  const char* value = std::getenv("AMD_SMI_DOUBLE");
  return value == nullptr ? "board" : value;
}
std::uint32_t gpus() { return kind() == "one" ? 1 : kind() == "board" || kind() == "mi355x" ? 8 : 0; }
/// What AMD_SMI_DOUBLE_SAYS says under a name, else `usual`; and whether the library can tell it, 0 or "not supported".
constexpr int kNotSupported = 2;
template <class Number>
int tell(std::string_view name, std::uint64_t usual, Number* out) {
  const char* words = std::getenv("AMD_SMI_DOUBLE_SAYS");
  const std::string all = words == nullptr ? " " : " " + std::string(words) + " ";
  const std::size_t at = all.find(" " + std::string(name) + "=");
  const char* value = at == std::string::npos ? nullptr : all.c_str() + at + name.size() + 2;
  if (value != nullptr && *value == 'n') return kNotSupported;
  *out = static_cast<Number>(value == nullptr ? usual : std::strtoull(value, nullptr, 10));
  return 0;
}
bool says(std::string_view name) {
  int number = 0;
  return tell(name, 0, &number) == 0;
}
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
#ifndef OLD_DRIVER
int amdsmi_get_gpu_device_bdf(void* gpu, std::uint64_t* bits) {
  if (!says("bus")) return kNotSupported;
  const char* first = std::getenv("AMD_SMI_DOUBLE_BUS");
  const std::uint64_t begin = first == nullptr ? 0x1b << 8 : std::strtoull(first, nullptr, 10);
  return *bits = begin + (static_cast<std::uint64_t>(gpu_of(gpu)) << 8), 0;
}
int amdsmi_get_gpu_device_uuid(void* gpu, unsigned* size, char* text) {
  if (!says("uuid")) return kNotSupported;
  return std::snprintf(text, *size, "GPU-%016u", gpu_of(gpu)), 0;
}
int amdsmi_get_gpu_asic_info(void* gpu, char* name) {
  if (!says("name")) return kNotSupported;
  const char* mixed = std::getenv("NVML_DOUBLE");
  const bool other = mixed != nullptr && std::string_view(mixed) == "mixed" && gpu_of(gpu) == 1;
  const bool newer = kind() == "mi355x";
  return std::strcpy(name, other ? "AMD Instinct MI250X" : newer ? "AMD Instinct MI355X" : "AMD Instinct MI300X"), 0;
}
int amdsmi_get_gpu_memory_total(void*, int kind_of, std::uint64_t* bytes) {
  return kind_of == 0 ? tell("total", 206141652992ull, bytes) : kNotSupported;
}
int amdsmi_get_gpu_memory_usage(void*, int kind_of, std::uint64_t* bytes) {
  return kind_of == 0 ? tell("used", 297795584ull, bytes) : kNotSupported;
}
int amdsmi_get_gpu_activity(void*, std::uint32_t* activity) {
  return activity[1] = 5, activity[2] = 0, tell("busy", kind() == "one" ? 97 : 0, &activity[0]);
}
int amdsmi_get_gpu_process_list(void*, std::uint32_t* count, void*) {
  return tell("processes", kind() == "one" ? 3 : 0, count);
}
int amdsmi_get_clock_info(void*, int type, std::uint32_t* clock) {
  return type == 0 ? tell("sm", 2100, clock) : type == 4 ? tell("memory_clock", 1300, clock) : kNotSupported;
}
int amdsmi_get_power_info(void*, std::uint32_t* power) {
  // This GPU tells its average alone.
  return tell("watts", 0xffff'ffffu, &power[0]) + tell("average", 742, &power[1]);
}
int amdsmi_get_temp_metric(void*, int sensor, int metric, std::int64_t* out) {
  const char* words = std::getenv("AMD_SMI_DOUBLE_SAYS");  // this release lacks it, but where a test asks for it
  return words == nullptr || sensor != 1 || metric != 0 ? kNotSupported : tell("temperature", 0, out);
}
#endif
}
