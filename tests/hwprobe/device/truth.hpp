#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

/// The laws of the device that answers: the true time of every operation. The stand-ins for the vendor's libraries obey
/// them, and the tests hold what the probe reports against them. Nothing of the program under test is used here.
namespace truth {

/// DEVICE_ANSWERS="nvlink=0.5 slow=1:1.2": words of the form key=value, separated by blanks. R: before a value makes it
/// that of rank R alone. The machine: gpus, gpu (a name), mixed (index of one of another kind), clique, leaf, nvlink.
/// Its host: jitter and coarse (seconds that a sleep takes longer, at random or at least), lazy. Faults: small=R:BYTES
/// of memory, slow=R:TIMES, wrong=R:OP, wrong_gemm, no_blas, fail_kernel and break_kernel (which stays broken) and
/// hang_kernel=R:NAME, fail_gemm=R:DEPTH, fail_attention, die=R:OP, hang=R:OP, abort_hangs=R:1.
inline std::string setting(const std::string& key) {
  const char* all = std::getenv("DEVICE_ANSWERS");
  const std::string text = " " + std::string(all == nullptr ? "" : all) + " ";
  const std::size_t at = text.find(" " + key + "=");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + key.size() + 2;
  return text.substr(begin, text.find(' ', begin) - begin);
}
inline double number(const std::string& key, double otherwise) {
  const std::string text = setting(key);
  return text.empty() ? otherwise : std::atof(text.c_str());
}
/// "RANK:VALUE" of a setting that is about one rank; "" for the others. Without a colon it is about every rank.
inline std::string of_rank(const std::string& key, int rank) {
  const std::string text = setting(key);
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return text;
  return std::atoi(text.c_str()) == rank ? text.substr(colon + 1) : std::string();
}

inline constexpr double kTotalBytes = 85520809984.0, kContextBytes = 558345748.0;
inline constexpr double kMemoryRate = 3.0e12, kCacheRate = 9.0e12, kCacheBytes = 52428800;
inline constexpr double kToDevice = 55.0e9, kToHost = 54.0e9, kBothWays = 0.8;  ///< share of each rate, both at once
inline constexpr double kComputeBesideComm = 1.10, kCommBesideCompute = 1.16;   ///< times as long
inline constexpr double kFlops = 7.0e14;

/// Bytes between the processors and memory, none of them from the cache: a probe's buffers rotate past it.
inline double memory_seconds(double bytes, double fixed = 2e-6) { return fixed + bytes / kMemoryRate; }

/// A product of bytes_a, bytes_b and bytes_d, in a format that runs `faster` times as fast as bf16.
inline double gemm_seconds(double m, double n, double k, double bytes, double faster) {
  const double compute = 2 * m * n * k / (kFlops * faster), memory = bytes / 2.4e12;
  return 2.5e-6 + std::pow(std::pow(compute, 4) + std::pow(memory, 4), 0.25);
}

inline double attention_seconds(double flops) { return 5e-6 + flops / 4.6e14; }

inline double host_seconds(double bytes, bool to_host) { return 8e-6 + bytes / (to_host ? kToHost : kToDevice); }
inline double pair_seconds(double bytes) { return 6e-6 + bytes / (0.88 * 450e9 * number("nvlink", 1)); }

/// A group of `n` ranks on `nodes` NVLink domains. Names are those of nccl-tests. Beyond `leaf` domains the way goes up
/// through switches that have half the bandwidth.
inline double collective_seconds(const std::string& op, double n, double nodes, double bytes) {
  const double inside = n / nodes, nic = nodes > number("leaf", 1e9) ? 24e9 : 48e9;
  double alpha = 5e-6 + 1.3e-6 * n, rate = 450e9 * number("nvlink", 1) * 0.8;
  if (nodes > 1) alpha = 14e-6 + 3e-6 * std::log2(nodes) + 1.2e-6 * inside, rate = std::min(rate, nic * inside);
  if (op == "all_to_all" || op == "send_recv") {
    alpha *= 0.8;
    if (nodes > 1) rate = nic;
  }
  const double wire = op == "all_reduce" ? 2 * (n - 1) / n : op == "send_recv" || op == "broadcast" ? 1 : (n - 1) / n;
  return std::pow(std::pow(alpha, 0.62) + std::pow(bytes * wire / rate, 0.62), 1 / 0.62);
}

/// Device memory of a communicator, and of the first operation of its kind on it.
inline double communicator_bytes() { return 48.0 * (1 << 20); }
inline double first_use_bytes(const std::string& op, double n) {
  return op == "all_to_all" ? (n - 1) * 32 * 12 * (1 << 20) : 392.0 * (1 << 20);
}

}  // namespace truth
