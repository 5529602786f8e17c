// Ranks of one NCCL communicator: making groups, waiting for them, agreeing.
#pragma once

#include "hwprobe/cuda/device.cuh"

namespace plan_cuda {

/// Success or in progress; anything else ends what this communicator is good for.
Status nccl_status(Device& device, ncclResult_t result, const char* what);

/// Until what a communicator began has ended. Every operation of one that does not block passes through a thread of
/// NCCL (2.25 and later) and needs this, so it looks often before it sleeps.
Status settle(Device& device, ncclComm_t comm, const char* what);

/// Index of the first rank of this rank's group, -1 if the groups leave it out.
int group_of(const Device& device, int size, int stride);
Status make_group(Device& device, int size, int stride, ncclComm_t& comm);
/// The same, made once.
Status find_group(Device& device, const plan_probe_point& point, ncclComm_t& comm);

/// One small all-reduce on `stream`, already launched when this returns: behind it all ranks begin together.
Status align(Device& device, ncclComm_t comm, cudaStream_t stream);
/// The same value on every rank: the largest.
Status largest(Device& device, ncclComm_t comm, double& value);
/// What this rank thinks, or PLAN_PROBE_PEER if another rank of the group cannot go on. Nobody may leave before.
Status agree(Device& device, ncclComm_t comm, const Status& own);

}  // namespace plan_cuda
