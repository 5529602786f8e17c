// What Slurm tells a script, where the user has stated how many GPUs there are: a script that computes its batch of
// them is read as sbatch would run it with as many nodes, whatever its header asks for.
#include <doctest/doctest.h>

#include "cli/launch/launch.hpp"
#include "small_files.hpp"
#include "temporary_folder.hpp"

namespace plan {

using namespace launching;

namespace {

std::string script(const std::string& header, const std::string& batch) {
  return "#!/bin/bash\n" + header + "BATCH=" + batch +
         "\ntorchrun --nnodes $SLURM_NNODES --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 "
         "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
         "--global-batch-size $BATCH --eval-interval 10 --vocab-size 32000 --bf16\n";
}

}  // namespace

TEST_CASE("with GPUs from the user a script knows what the scheduler would tell it") {
  const TemporaryFolder folder;
  const auto batch_of = [&](const std::string& text, int gpus, int per_node) {
    const Result<LaunchJob> job = read_launch_files(
        {folder.write("run.sh", text)}, {.model = {}, .gpus = gpus, .gpus_per_node = per_node, .arguments = {}});
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    return job->training->global_batch;
  };
  for (const int nodes : {1, 3, 16})
    for (const int per_node : {4, 8}) {
      const int gpus = nodes * per_node;
      CAPTURE(nodes);
      CAPTURE(per_node);
      for (const char* header : {"", "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n"}) {
        CHECK(batch_of(script(header, "$((SLURM_NNODES * 24))"), gpus, per_node) == nodes * 24);
        CHECK(batch_of(script(header, "$((SLURM_JOB_NUM_NODES * SLURM_GPUS_ON_NODE))"), gpus, per_node) == gpus);
        CHECK(batch_of(script(header, "$((SLURM_GPUS * 2))"), gpus, per_node) == gpus * 2);
      }
      const std::string tasks = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n";
      CHECK(batch_of(script(tasks, "$((SLURM_NTASKS * 3))"), gpus, per_node) == nodes * 8 * 3);
    }
  // Without them the header counts, and a script without a header leaves its batch open.
  CHECK(batch_of(script("#SBATCH --nodes=2\n", "$((SLURM_NNODES * 24))"), 0, 0) == 48);
  const Result<LaunchJob> open = read_launch_files({folder.write("open.sh", script("", "$((SLURM_NNODES * 24))"))});
  REQUIRE_FALSE(open);
  REQUIRE_FALSE(open.error().front().help.empty());
  CHECK(open.error().front().help.front().find("`--gpus`") != std::string::npos);
}

}  // namespace plan
