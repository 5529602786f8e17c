/* The C interface between `plan` and the library that measures. Plain data only: neither the C++ library, CUDA nor NCCL
   types cross it, so that a plugin for another vendor can implement it. Every function returns 0, or a negative
   PLAN_PROBE_ error with a message in `error`. */
#ifndef PLAN_HWPROBE_PLUGIN_ABI_H
#define PLAN_HWPROBE_PLUGIN_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLAN_PROBE_ABI 3
#define PLAN_PROBE_SAMPLES 200
#define PLAN_PROBE_ID_BYTES 128

enum plan_probe_error {
  PLAN_PROBE_OK = 0,
  PLAN_PROBE_FAILED = -1,      /* measuring went wrong: message */
  PLAN_PROBE_UNSUPPORTED = -2, /* this device, driver or library cannot: message says what is missing */
  PLAN_PROBE_NO_MEMORY = -3,
  PLAN_PROBE_ABORTED = -4,
  PLAN_PROBE_WRONG_RESULT = -5, /* the operation ran and computed something else than it should */
  PLAN_PROBE_LOST = -6,         /* so do all that follow: the device or its driver is in no state to go on */
  PLAN_PROBE_STUCK = -8,        /* it waited in vain: lost, most likely through another rank */
  PLAN_PROBE_PEER = -7          /* another rank of the group could not, and says why */
};

/* What a point measures; in brackets the meaning of its numbers. Times are seconds of one operation. */
enum plan_probe_kind {
  PLAN_PROBE_MEMORY = 1,     /* value[]: total, free, context, workspace; bytes */
  PLAN_PROBE_COPY = 2,       /* [bytes] device to device */
  PLAN_PROBE_TRIAD = 3,      /* [bytes] of one array; three are touched */
  PLAN_PROBE_GEMM = 4,       /* [m, n, k] format, orientation */
  PLAN_PROBE_ATTENTION = 5,  /* [batch, heads, kv heads, seq, head dim] orientation 0 forward, 1 backward */
  PLAN_PROBE_KERNEL = 6,     /* [kernel, elements] */
  PLAN_PROBE_HOST_LINK = 7,  /* [direction: 0 to device, 1 to host, 2 both; bytes] */
  PLAN_PROBE_PAIR = 8,       /* [other device, bytes] a device in this process */
  PLAN_PROBE_COLLECTIVE = 9, /* [bytes of nccl-tests' size] op, format, group */
  PLAN_PROBE_OVERLAP =
      10, /* [bytes of the collective] op, group; value[]: compute and comm alone, each beside the other */
  PLAN_PROBE_NCCL_MEMORY = 11, /* op or -1 for a new communicator; value[]: bytes taken; channels of collectives, NVLS,
                                  send and receive, 0 unknown */
  PLAN_PROBE_SUSTAINED = 12    /* [m, n, k] format: the GEMM for max_seconds; value[]: burst s, sustained s */
};

enum plan_probe_format {
  PLAN_PROBE_FP32 = 0,
  PLAN_PROBE_FP16 = 1,
  PLAN_PROBE_BF16 = 2,
  PLAN_PROBE_FP8 = 3,   /* e4m3, one scale a tensor */
  PLAN_PROBE_MXFP8 = 4, /* e4m3, a UE8M0 scale for 32 values */
  PLAN_PROBE_NVFP4 = 5  /* e2m1, a UE4M3 scale for 16 values */
};

enum plan_probe_kernel {
  PLAN_PROBE_RMSNORM = 0,
  PLAN_PROBE_RMSNORM_BWD = 1,
  PLAN_PROBE_SOFTMAX = 2,
  PLAN_PROBE_SWIGLU = 3,
  PLAN_PROBE_RESIDUAL = 4,
  PLAN_PROBE_ROPE = 5,
  PLAN_PROBE_CROSS_ENTROPY = 6,
  PLAN_PROBE_CAST = 7,
  PLAN_PROBE_ADAM = 8,
  PLAN_PROBE_GRAD_NORM = 9,
  PLAN_PROBE_KERNELS = 10
};

typedef struct plan_probe_point {
  int32_t kind, format, orientation, op;
  int64_t number[6];
  int32_t group_size;   /* ranks of the group */
  int32_t group_stride; /* distance of its members in rank order */
  int32_t all_groups;   /* every disjoint group at once, else the first alone */
  int32_t least_samples, most_samples;
  double max_seconds; /* of this point */
} plan_probe_point;

typedef struct plan_probe_result {
  int32_t count;
  int32_t took_part; /* 0: this rank is in no group of the point */
  double seconds[PLAN_PROBE_SAMPLES];
  double value[8];
  double bytes;         /* that one operation moved */
  double eager_seconds; /* launched singly; 0 where not measured */
  char text[64];        /* algorithm, library version */
} plan_probe_result;

typedef struct plan_probe_setup {
  int32_t device;
  int32_t rank, world, local_rank, local_world;
  const char* nccl_library;   /* path, or NULL: libnccl.so.2 of the system's search */
  const char* cudnn_library;  /* path, or NULL */
  const char* cublas_library; /* path, or NULL */
  double timeout_seconds;     /* a device that answers nothing for so long has hung */
} plan_probe_setup;

typedef struct plan_probe_device {
  char name[96], uuid[48], pci_bus[32], capability[16], runtime[32], nccl[32], cudnn[32], cublas[32];
  int64_t total_bytes, free_bytes, l2_bytes;
  int32_t sm_count, devices;
} plan_probe_device;

typedef struct plan_probe_backend {
  uint32_t abi;
  uint32_t size; /* of this struct */
  int (*open)(const plan_probe_setup*, void** state, plan_probe_device*, char* error, size_t error_size);
  int (*supports)(void* state, const plan_probe_point*, char* error, size_t error_size);
  int (*unique_id)(void* state, unsigned char id[PLAN_PROBE_ID_BYTES], char* error, size_t error_size);
  int (*join)(void* state, const unsigned char id[PLAN_PROBE_ID_BYTES], char* error, size_t error_size);
  int (*measure)(void* state, const plan_probe_point*, plan_probe_result*, char* error, size_t error_size);
  void (*stop)(void* state); /* from another thread: measure and join return PLAN_PROBE_ABORTED soon */
  void (*close)(void* state);
  int32_t toolkit; /* version of the toolkit that it was built with, 13000 for CUDA 13.0; 0: none */
} plan_probe_backend;

/* The one symbol that a plugin exports. */
const plan_probe_backend* plan_probe_backend_v1(void);
typedef const plan_probe_backend* (*plan_probe_backend_v1_function)(void);

#ifdef __cplusplus
}
#endif
#endif
