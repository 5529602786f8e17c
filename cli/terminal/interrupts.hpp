#pragma once

namespace plan {

/// While it lives, SIGINT and SIGTERM end nothing at once: what runs looks whether one came, at points of its own.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Did one come, to this watch or to one before it?
  [[nodiscard]] static bool interrupted();

 private:
  void (*interrupt_)(int);
  void (*terminate_)(int);
};

}  // namespace plan
