// Scripts that a script writes before it starts them, or hands to a shell as a document.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

/// A job whose tensor-parallel ranks are the word given.
std::string job(const std::string& ranks) {
  return "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n"
         "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 24 --hidden-size 1024 "
         "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 4 "
         "--global-batch-size 64 --eval-interval 5 --train-iters 100 --bf16 --vocab-size 32000 "
         "--tensor-model-parallel-size " +
         ranks + "\n";
}

std::string document(const std::string& before, const std::string& text, const std::string& after) {
  return before + text + "EOF\n" + after;
}

}  // namespace

TEST_CASE("a script that is written and then started is what trains") {
  const std::string text = job("$TP");
  const std::string forms[] = {
      document("cat > job_$TP.sh <<EOF\n", text, "sbatch job_$TP.sh\n"),
      document("cat <<EOF > out/job.sh\n", text, "chmod +x out/job.sh\nbash out/job.sh\n"),
      document("tee job.sh <<EOF\n", text, "bash job.sh\n"),
      document("tee job.sh > /dev/null <<EOF\n", text, "bash job.sh\n"),
      document("sbatch <<EOF\n", text, ""),
      document("sbatch --job-name x <<EOF\n", text, ""),
      document("bash -s <<EOF\n", text, ""),
      document("srun --nodes 2 bash <<EOF\n", text, ""),
      document("cat > first.sh <<EOF\n", text, "cp first.sh out/job.sh\nsbatch out/job.sh\n"),
      "printf \"" + text + "\" > job.sh\nbash job.sh\n",
      "printf '%s\\n' \"" + text + "\" > job.sh\nbash job.sh\n",
      "echo \"" + text + "\" > job.sh\nbash job.sh\n",
  };
  for (const std::string& form : forms) {
    CAPTURE(form);
    for (const char* start : {"TP=4\n", "TP=4\nfor LR in 1e-4 2e-4; do\n"}) {
      const std::string end = std::string(start).ends_with("do\n") ? "done\n" : "";
      CHECK(job_of("run.sh", "#!/bin/bash\n" + (start + form) + end).fixed.tp == 4);
    }
    CHECK(error_of("run.sh", "#!/bin/bash\nfor TP in 2 4; do\n" + form + "done\n") == "several_trainings");
  }
}

TEST_CASE("a configuration is read as the script has written it, in whatever way") {
  const std::string train =
      "deepspeed --num_gpus 8 train.py --deepspeed ds.json --model_name_or_path meta-llama/Llama-2-7b-hf "
      "--per_device_train_batch_size 1 --max_seq_length 2048 --bf16 true\n";
  for (const int stage : {1, 2, 3})
    for (const std::string& form :
         {document("cat > ds.json <<EOF\n", "{\"zero_optimization\": {\"stage\": $Z}, \"bf16\": {\"enabled\": true}}\n",
                   ""),
          std::string("echo '{\"zero_optimization\": {\"stage\": '$Z'}, \"bf16\": {\"enabled\": true}}' > ds.json\n"),
          std::string("echo \"{\n \\\"zero_optimization\\\": {\\\"stage\\\": $Z}, \\\"bf16\\\": {\\\"enabled\\\": "
                      "true}}\" > ds.json\n"),
          std::string("printf '{\"zero_optimization\": {\"stage\": %d},\\n \"bf16\": {\"enabled\": %s}}\\n' $Z true > "
                      "ds.json\n"),
          std::string("printf '{\"zero_optimization\": {\"stage\": %s}}' \"$Z\" > a.json\ncp a.json ds.json\n")}) {
      CAPTURE(form);
      CHECK(job_of("run.sh", fmt::format("#!/bin/bash\nZ={}\n{}{}", stage, form, train)).fixed.zero == stage);
    }
  // What a format does that is not followed leaves the file unknown.
  CHECK(error_of("run.sh", "#!/bin/bash\nprintf '{\"zero_optimization\": {\"stage\": %5.1f}}' 2 > ds.json\n" + train) ==
        "missing_file");
}

TEST_CASE("a script that is started sees what is exported, and what it sets is gone with it") {
  const std::string quoted = document("cat > job.sh <<'EOF'\n", job("$TP"), "bash job.sh\n"),
                    direct = document("bash <<'EOF'\n", job("$TP"), "");
  for (const std::string& form : {quoted, direct}) {
    CHECK(error_of("run.sh", "#!/bin/bash\nTP=2\n" + form) == "bad_value");
    CHECK(job_of("run.sh", "#!/bin/bash\nexport TP=2\n" + form).fixed.tp == 2);
  }
  const std::string sets = document("bash <<'EOF'\n", "TP=8\n", "");
  CHECK(job_of("run.sh", "#!/bin/bash\nTP=2\n" + sets + job("$TP")).fixed.tp == 2);
}

TEST_CASE("a written script that another program changes is not read as it was written") {
  const std::string written = document("#!/bin/bash\ncat > job.sh <<EOF\n", job("2"), "");
  for (const char* change : {"sed -i s/2/4/ job.sh\n", "sed -Ei.old s/2/4/ ./job.sh\n", "perl -pi -e s/2/4/ job.sh\n",
                             "python tune.py > job.sh\n", "cat more.sh >> job.sh\n", "cp other.sh job.sh\n",
                             "printf '%5.1f' 2 > job.sh\n"}) {
    CAPTURE(std::string(change));
    const Files files;
    const Result<LaunchJob> read = files.read("run.sh", written + change + "sbatch job.sh\n");
    REQUIRE_FALSE(read);
    CHECK(read.error().front().code == "no_launch");
    REQUIRE_FALSE(read.error().front().facts.empty());
    CHECK(read.error().front().facts.back().find("`job.sh`") != std::string::npos);
  }
  for (const char* plain : {"sed -n 1p job.sh\n", "cat job.sh\n", "echo x > other.sh\n", "ls -i job.sh\n"})
    CHECK(job_of("run.sh", written + plain + "sbatch job.sh\n").fixed.tp == 2);
}

TEST_CASE("batches of DeepSpeed's file that are not the flags' are told") {
  const auto job = [](int all, int micro, const char* way) {
    return job_of("run.sh",
                  fmt::format("#!/bin/bash\ncat > ds.json <<EOF\n{{\"train_batch_size\": {}, "
                              "\"train_micro_batch_size_per_gpu\": {}, \"zero_optimization\": {{\"stage\": 2}}}}\n"
                              "EOF\ndeepspeed --num_gpus 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
                              "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 "
                              "--micro-batch-size 2 --global-batch-size 64 --vocab-size 32000 --bf16 "
                              "--tokenizer-type NullTokenizer --train-iters 10 --deepspeed "
                              "--deepspeed_config ds.json {}\n",
                              all, micro, way));
  };
  for (const char* way : {"", "--zero-stage 2"}) {
    CAPTURE(std::string(way));
    CHECK_FALSE(names(job(64, 2, way).unused, "ds.json"));
    CHECK(names(job(128, 2, way).unused, "train_batch_size"));
    CHECK(names(job(64, 4, way).unused, "train_micro_batch_size_per_gpu"));
    CHECK(job(128, 4, way).training->global_batch == 64);
    CHECK(job(128, 4, way).fixed.zero == 2);
  }
}

}  // namespace plan
