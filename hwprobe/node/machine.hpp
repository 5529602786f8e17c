#pragma once

#include <string>
#include <vector>

#include "hwprobe/node/driver.hpp"

namespace plan {

/// One port of a network adapter.
struct NicFacts {
  std::string device{};      ///< mlx5_0
  double gb_s = 0;           ///< line rate per direction
  std::string link_layer{};  ///< InfiniBand, Ethernet
  bool active = false;
  int numa = -1;
  int nearest_gpu = -1;  ///< that shares the deepest PCI bridge
};

/// One machine, as far as it can be seen without measuring.
struct Machine {
  std::string host{};
  Maker maker = Maker::Nvidia;  ///< whose driver runs
  std::string driver{};
  int cuda = 0;          ///< newest that the driver runs, 13000 for 13.0; 0: unknown
  std::string rdma{};    ///< what lets adapters reach GPU memory: nvidia_peermem, DMA-BUF; empty: nothing seen
  std::string no_gpu{};  ///< why there are none; empty if there are
  std::vector<GpuFacts> gpus{};
  int host_gpus = 0;           ///< that the driver lists, visible to this process or not
  double host_memory_gib = 0;  ///< as Linux counts it; 0: unknown
  std::vector<NicFacts> nics{};
  int numa_nodes = 0;
  int cores = 0;
};

}  // namespace plan
