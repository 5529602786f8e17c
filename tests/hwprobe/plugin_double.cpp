// A measuring plugin for tests: times follow known laws, so that what the probe finds can be checked against them.
// PLUGIN_DOUBLE=die:2 makes rank 2 end without a word at its third GEMM, hang:2 makes it never come to an end there,
// stop:2 stops its whole process, fail:2 makes it report an error, slow:2 takes a while there. full:2 fills texts to
// their last character and counts more samples than there is room for, none:2 counts less than none; shut:2 opens no
// device, alone:2 gives no id of a world, bare:2 measures memory alone. abi:0 and size:0 make the library one of
// another version of plan.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hwprobe/plugin_abi.h"

namespace {

struct State {
  plan_probe_setup setup{};
  std::atomic<bool> stopped{false};
  int gemms = 0;
};

std::string fault(int rank) {
  const char* text = std::getenv("PLUGIN_DOUBLE");
  if (text == nullptr) return {};
  const std::string all(text);
  const std::size_t colon = all.find(':');
  return colon != std::string::npos && std::stoi(all.substr(colon + 1)) == rank ? all.substr(0, colon) : std::string();
}

template <std::size_t N>
void fill(char (&text)[N]) {
  std::memset(text, 'x', N);
}

int open_device(const plan_probe_setup* setup, void** out, plan_probe_device* device, char* error, size_t size) {
  if (fault(setup->rank) == "shut") return std::snprintf(error, size, "it is on fire"), PLAN_PROBE_FAILED;
  static auto* const states = new std::vector<std::unique_ptr<State>>;  // never freed, and no leak: see close_device
  *out = states->emplace_back(new State{*setup}).get();
  std::snprintf(device->name, sizeof device->name, "NVIDIA H100 80GB HBM3");
  std::snprintf(device->uuid, sizeof device->uuid, "GPU-%08d-0000-0000-0000-000000000000", setup->local_rank);
  std::snprintf(device->capability, sizeof device->capability, "9.0");
  std::snprintf(device->runtime, sizeof device->runtime, "13.0");
  std::snprintf(device->nccl, sizeof device->nccl, "2.28.9");
  device->total_bytes = 85520809984;
  device->free_bytes = 84000000000;
  device->l2_bytes = 52428800;
  device->sm_count = 132;
  device->devices = setup->local_world;
  if (fault(setup->rank) == "full")
    fill(device->name), fill(device->uuid), fill(device->pci_bus), fill(device->capability), fill(device->runtime),
        fill(device->nccl), fill(device->cudnn), fill(device->cublas);
  return PLAN_PROBE_OK;
}

int supports(void*, const plan_probe_point*, char*, size_t) { return PLAN_PROBE_OK; }
int unique_id(void* opaque, unsigned char id[PLAN_PROBE_ID_BYTES], char* error, size_t size) {
  if (fault(static_cast<State*>(opaque)->setup.rank) == "alone")
    return std::snprintf(error, size, "libnccl.so.2 is missing"), PLAN_PROBE_UNSUPPORTED;
  return std::memset(id, 7, PLAN_PROBE_ID_BYTES), PLAN_PROBE_OK;
}
int join(void*, const unsigned char id[PLAN_PROBE_ID_BYTES], char* error, size_t size) {
  if (id[5] == 7) return PLAN_PROBE_OK;
  return std::snprintf(error, size, "another id"), PLAN_PROBE_FAILED;
}

double seconds_of(const plan_probe_point& p, double& bytes) {
  const auto n = [&](int i) { return static_cast<double>(p.number[i]); };
  switch (p.kind) {
    case PLAN_PROBE_GEMM: return 2.8e-6 + 2 * n(0) * n(1) * n(2) / (p.format >= PLAN_PROBE_FP8 ? 1.4e15 : 7e14);
    case PLAN_PROBE_COPY: return bytes = 2 * n(0), 3e-6 + bytes / 2.99e12;
    case PLAN_PROBE_TRIAD: return bytes = 3 * n(0), 3e-6 + bytes / 3.01e12;
    case PLAN_PROBE_ATTENTION:
      return 5e-6 + 2 * n(0) * n(1) * n(3) * n(3) * n(4) * (p.orientation == 1 ? 3.2 : 1) / 5e14;
    case PLAN_PROBE_KERNEL: return bytes = 6 * n(1), 4e-6 + bytes / 2.4e12;
    case PLAN_PROBE_HOST_LINK: return bytes = n(1), 1e-5 + bytes / 5.5e10;
    case PLAN_PROBE_PAIR: return bytes = n(1), 1e-5 + bytes / 3.96e11;
    case PLAN_PROBE_COLLECTIVE: return std::pow(std::pow(1e-5, 0.62) + std::pow(n(0) / 3.6e11, 0.62), 1 / 0.62);
    default: return 1e-3;
  }
}

int measure(void* opaque, const plan_probe_point* p, plan_probe_result* r, char* error, size_t size) {
  auto* state = static_cast<State*>(opaque);
  if (p->kind == PLAN_PROBE_GEMM && ++state->gemms == 3) {
    const std::string what = fault(state->setup.rank);
    if (what == "die") _exit(9);
    if (what == "stop") raise(SIGSTOP);
    if (what == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    if (what == "hang")
      while (!state->stopped) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (what == "fail") return std::snprintf(error, size, "an illegal memory access was encountered"), PLAN_PROBE_LOST;
  }
  if (state->stopped) return PLAN_PROBE_ABORTED;
  if (fault(state->setup.rank) == "bare" && p->kind != PLAN_PROBE_MEMORY && p->kind != PLAN_PROBE_NCCL_MEMORY)
    return std::snprintf(error, size, "no kernel image is available"), PLAN_PROBE_UNSUPPORTED;
  if (p->kind == PLAN_PROBE_OVERLAP)
    return std::snprintf(error, size, "overlap is not measured here"), PLAN_PROBE_UNSUPPORTED;
  *r = {};
  r->took_part = 1;
  r->count = 9;
  const double seconds = seconds_of(*p, r->bytes);
  for (int i = 0; i < r->count; ++i) r->seconds[i] = seconds * (1 + 0.002 * ((i * 7) % 9 - 4) / 4.0);
  const std::string what = fault(state->setup.rank);
  if (what == "full") fill(r->text), r->count = PLAN_PROBE_SAMPLES + 1;
  if (what == "none") r->count = -3;
  if (p->kind == PLAN_PROBE_MEMORY)
    r->value[0] = 85520809984.0, r->value[1] = 84930000000.0, r->value[2] = 558345748, r->value[3] = 33554432;
  if (p->kind == PLAN_PROBE_SUSTAINED) r->value[0] = 1.5e-3, r->value[1] = 1.65e-3;
  if (p->kind == PLAN_PROBE_NCCL_MEMORY)
    r->value[0] = p->op < 0 ? 5e7 : 4e8, r->value[1] = 16, r->value[2] = 16, r->value[3] = 32;
  if (p->kind == PLAN_PROBE_COLLECTIVE)
    std::snprintf(r->text, sizeof r->text, "%s", p->number[0] < 2097152 ? "RING/LL" : "NVLS/SIMPLE");
  return PLAN_PROBE_OK;
}

void stop(void* state) { static_cast<State*>(state)->stopped = true; }
void close_device(void*) {}  // a thread that is left behind may still look at it

constexpr plan_probe_backend kBackend{
    PLAN_PROBE_ABI, sizeof(plan_probe_backend), open_device, supports, unique_id, join, measure, stop, close_device,
    13000};

}  // namespace

extern "C" const plan_probe_backend* plan_probe_backend_v1(void) {
  static plan_probe_backend other = kBackend;
  const std::string what = fault(0);
  other.abi = what == "abi" ? PLAN_PROBE_ABI + 1 : PLAN_PROBE_ABI;
  other.size = sizeof other - (what == "size" ? 1 : 0);
  return &other;
}
