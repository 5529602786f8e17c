#pragma once

#include <functional>

namespace answering {

/// What one launch of a kernel comes to.
struct Kernel {
  double seconds = 0;
  std::function<void()> effect{};
  const volatile int* gate = nullptr;
  int error = 0;  ///< of cudaError; it fails instead
  bool sticky = false;
};
void register_kernel(const void* function, const char* name);
/// By its mangled name and its arguments, which stand as the plugin's sources declare them.
Kernel kernel_called(const void* function, unsigned blocks, void** arguments);
/// Whether nobody has asked for this kernel before.
bool first_launch(const void* function);

}  // namespace answering
