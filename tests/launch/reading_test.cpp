// What launch files of many tools say, each construct in a small file of our own: values are worked out by hand, and
// what changes the answer without a meaning here is named.
#include <doctest/doctest.h>

#include <algorithm>

#include "cli/launch/launch.hpp"
#include "planner/problem/axes.hpp"
#include "presets/store.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kMegatron =
    "#!/bin/bash\ntorchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
    "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 "
    "--eval-interval 100 --bf16 ";

}  // namespace

TEST_CASE("a batch a rank becomes the whole with the GPUs that flags state") {
  const std::string toml =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n"
      "[parallelism]\ntensor_parallel_degree = 4\n";
  for (const int gpus : {8, 64, 512}) {
    const LaunchJob job = job_of("t.toml", toml, {.model = {}, .gpus = gpus, .gpus_per_node = 8, .arguments = {}});
    CHECK(job.states_global_batch);
    CHECK(job.training->global_batch == 2 * gpus / 4);
  }
  CHECK_FALSE(job_of("t.toml", toml).states_global_batch);
  CHECK(job_of("t.toml", toml).rank_batch->steps == 1);
}

TEST_CASE("a command that no reader understands is no plan") {
  CHECK(error_of("a.sh", "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\nsrun python train.py --big\n") ==
        "training_not_understood");
  CHECK(error_of("b.sh", "#!/bin/bash\ntorchrun --nproc-per-node 8 my_train.py\n") == "training_not_understood");
  const LaunchJob hosts = job_of("hostfile", "worker-1 slots=8\nworker-2 slots=8\n");
  CHECK(hosts.gpus == 16);
}

TEST_CASE("a set of Megatron-LM's flags is a job of Megatron-LM's whatever its program is called") {
  std::string text = kMegatron + "--vocab-size 32000 --tensor-model-parallel-size 2 --ffn-hidden-size 11008\n";
  text.replace(text.find("pretrain_gpt.py"), 15, "../train_my_model.py --train-iters 10 ");
  const LaunchJob job = job_of("a.sh", text);
  CHECK(job.format == "megatron-lm");
  CHECK(job.fixed.tp == 2);
  CHECK(job.fixed.micro_batch == 2);
  CHECK(error_of("b.sh",
                 "#!/bin/bash\ntorchrun pretrain_t5.py --num-layers 12 --hidden-size 768 --micro-batch-size 1 "
                 "--global-batch-size 8 --seq-length 512\n") == "not_a_decoder");
}

TEST_CASE("every layer has experts where their frequency is -1, and none is not a frequency") {
  const std::string moe = kMegatron + "--vocab-size 32000 --num-experts 8 --moe-layer-freq ";
  CHECK(job_of("a.sh", moe + "-1\n").model->kinds.size() == 1);
  CHECK(job_of("a.sh", moe + "-1\n").model->kinds.front().ffn == Ffn::Moe);
  CHECK(job_of("a.sh", moe + "2\n").model->kinds.size() == 2);
  CHECK(error_of("a.sh", moe + "0\n") == "bad_model");
}

TEST_CASE("a vocabulary is stated, or its tokenizer is known, or the file is refused with models of that shape") {
  CHECK(error_of("a.sh", kMegatron + "--tokenizer-type SentencePieceTokenizer\n") == "vocabulary_not_stated");
  CHECK(job_of("a.sh", kMegatron + "--tokenizer-type GPT2BPETokenizer\n").model->vocab == 50257);
  CHECK(job_of("a.sh", kMegatron + "--tokenizer-model meta-llama/Llama-2-7b-hf\n").model->vocab == 32000);
}

TEST_CASE("a model by name counts with its own embeddings, and it is told where the script has others") {
  const std::string shape =
      "--num-layers 32 --hidden-size 2560 --num-attention-heads 32 --position-embedding-type rope ";
  const std::string text = "torchrun --nproc-per-node 8 pretrain_gpt.py " + shape +
                           "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size "
                           "64 --eval-interval 100 --bf16 ";
  const auto told = [&](const std::string& more, const char* model) {
    LaunchContext context;
    context.model = load_model(model, StoreOptions{}).value().value;
    const LaunchJob job = job_of("a.sh", text + more + "\n", context);
    return std::any_of(job.notes.begin(), job.notes.end(),
                       [](const Note& note) { return note.code == "model_differs"; });
  };
  CHECK(told("--untie-embeddings-and-output-weights", "gpt3-2.7b"));
  CHECK_FALSE(told("--untie-embeddings-and-output-weights", "pythia-2.8b"));
  CHECK(told("", "pythia-2.8b"));
}

TEST_CASE("a size alone names no model, wherever it stands") {
  const auto read = [](const std::string& name) {
    return job_of("a.yaml", "model_name_or_path: " + name + "\nper_device_train_batch_size: 1\nmax_length: 512\n");
  };
  for (const char* size : {"8B", "70b", "405B", "/data/70B", "../llama2/70B/"}) {
    CAPTURE(std::string(size));
    CHECK_FALSE(read(size).model);
    CHECK(read(size).model_name == size);
  }
  CHECK(read("models/Llama-3-70B").model->name == "llama3-70b");
}

TEST_CASE("a count that is a word, zero or negative is a mistake with its line") {
  for (const char* wrong :
       {"--num-query-groups x --group-query-attention", "--kv-channels 0", "--vocab-size -5", "--num-experts many"})
    CHECK(error_of("a.sh", kMegatron + wrong + std::string("\n")) == "bad_value");
}

TEST_CASE("flags of forks mean what they mean there") {
  const std::string start = kMegatron + "--vocab-size 32000 ";
  const LaunchJob old = job_of("a.sh", start + "--checkpoint-activations --zero-stage 2 --deepspeed\n");
  CHECK(old.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(old.fixed.zero == 2);
  CHECK(job_of("a.sh", start + "--zero-stage 0 --deepspeed --bf16\n").fixed.zero == 1);
  CHECK(job_of("a.sh", start + "--zero-stage 0\n").fixed.zero == 0);
  const LaunchJob ulysses = job_of("b.sh", start + "--ds-sequence-parallel-size 4\n");
  CHECK(ulysses.fixed.cp == 4);
  CHECK(ulysses.fixed.cp_kind == CpKind::Ulysses);
  const LaunchJob dense = job_of("c.sh", start +
                                             "--num-experts 8 --moe-ffn-hidden-size 1024 --first-k-dense-replace 3 "
                                             "--n-shared-experts 2 --moe-layer-freq 1\n");
  CHECK(std::count(dense.model->layers.begin(), dense.model->layers.end(), dense.model->layers.front()) == 3);
  CHECK(dense.model->kinds.back().moe.shared_width == 2048);
  const LaunchJob idle = job_of("d.sh", start + "--noop-layers 30,31 --pipeline-model-parallel-size 4\n");
  CHECK(idle.model->depth() == 30);
  CHECK(idle.fixed.chunk_layers == std::vector<int>{8, 8, 8, 6});
  const LaunchJob lora = job_of("e.sh", start + "--lora-r 32 --lora-alpha 16\n");
  CHECK(lora.training->task == Task::Lora);
  CHECK(lora.training->lora.rank == 32);
  CHECK(names(job_of("f.sh", start + "--swap-optimizer\n").unused, "--swap-optimizer"));
  CHECK(names(job_of("g.sh", start + "--qqq-zzz 3\n").unused, "--qqq-zzz"));
  CHECK(job_of("h.sh", start + "--lora-r 8 --tensorboard-log-everything\n").unused.empty());
}

TEST_CASE("scripts are followed into what they source, with the arguments that they are given") {
  const Files files;
  files.folder.write("conf.sh", "MBS=4\n");
  const std::string text = kMegatron + "--vocab-size 32000 --micro-batch-size $MBS --tensor-model-parallel-size $2\n";
  const std::string script = files.folder.write(
      "run.sh", "#!/bin/bash\nsource \"$(dirname \"$0\")/conf.sh\"\n" + text.substr(text.find('\n') + 1));
  const Result<LaunchJob> job =
      read_launch_files({script}, {.model = {}, .gpus = 0, .gpus_per_node = 0, .arguments = {"8B", "2"}});
  REQUIRE(job);
  CHECK(job->fixed.micro_batch == 4);
  CHECK(job->fixed.tp == 2);
}

TEST_CASE("accelerate's own section for DeepSpeed counts, and the file that it names") {
  const std::string head =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_machines: 1\n"
      "num_processes: 8\n";
  const LaunchJob inlined = job_of("a.yaml", head +
                                                 "mixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 3\n"
                                                 "  offload_optimizer_device: cpu\n");
  CHECK(inlined.format == "deepspeed");
  CHECK(inlined.fixed.zero == 3);
  CHECK(inlined.training->precision == Precision::Bf16);
  CHECK(inlined.training->offload.optimizer == 1);
  const Files files;
  files.folder.write("ds.json", "{\"zero_optimization\": {\"stage\": 2}, \"bf16\": {\"enabled\": true}}");
  const Result<LaunchJob> named = files.read("b.yaml", head + "deepspeed_config:\n  deepspeed_config_file: ds.json\n");
  REQUIRE(named);
  CHECK(named->fixed.zero == 2);
  CHECK(named->training->precision == Precision::Bf16);
  CHECK(error_of("c.yaml", head + "deepspeed_config:\n  deepspeed_config_file: gone.json\n") == "missing_file");
}

TEST_CASE("LoRA is LoRA in every tool") {
  const LaunchContext eight{.model = {}, .gpus = 8, .gpus_per_node = 8, .arguments = {}};
  const std::pair<const char*, std::string> files[] = {
      {"factory.yaml",
       "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\ndo_train: true\n"
       "finetuning_type: lora\nlora_rank: 24\nper_device_train_batch_size: 1\n"},
      {"axolotl.yml",
       "base_model: NousResearch/Meta-Llama-3-8B\ndatasets:\n  - path: x\nsequence_len: 2048\n"
       "adapter: lora\nlora_r: 24\nmicro_batch_size: 1\ngradient_accumulation_steps: 1\n"},
      {"swift.sh", "NPROC_PER_NODE=8 swift sft --model meta-llama/Meta-Llama-3-8B --lora_rank 24\n"},
      {"megatron-swift.sh",
       "NPROC_PER_NODE=8 megatron sft --model meta-llama/Meta-Llama-3-8B --tuner_type lora "
       "--lora_rank 24 --micro_batch_size 1 --global_batch_size 8 --max_length 2048\n"},
      {"trl.yaml",
       "model_name_or_path: meta-llama/Meta-Llama-3-8B\nuse_peft: true\nlora_r: 24\n"
       "per_device_train_batch_size: 1\n"},
      {"verl.sh",
       "#!/bin/bash\npython3 -m verl.trainer.main_ppo actor_rollout_ref.model.lora_rank=24 "
       "actor_rollout_ref.model.path=meta-llama/Meta-Llama-3-8B trainer.n_gpus_per_node=8 "
       "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1\n"},
      {"nemo-rl.yaml",
       "policy:\n  model_name: meta-llama/Meta-Llama-3-8B\n  train_global_batch_size: 8\n"
       "  train_micro_batch_size: 1\n  max_total_sequence_length: 2048\n  megatron_cfg:\n"
       "    enabled: true\n    peft:\n      enabled: true\n      dim: 24\n"},
  };
  for (const auto& file : files) {
    const auto& name = file.first;
    const auto& text = file.second;
    CAPTURE(name);
    const LaunchJob job = job_of(name, text, eight);
    CHECK(job.training->task == Task::Lora);
    CHECK(job.training->lora.rank == 24);
  }
}

TEST_CASE("the Trainer's arguments alone are data parallelism, and nobody said how they are launched") {
  const LaunchJob job = job_of("sft.yaml",
                               "model_name_or_path: Qwen/Qwen3-8B\nper_device_train_batch_size: 4\n"
                               "gradient_accumulation_steps: 2\nbf16: true\ngradient_checkpointing: true\n",
                               {.model = {}, .gpus = 16, .gpus_per_node = 8, .arguments = {}});
  CHECK(job.training->global_batch == 4 * 2 * 16);
  CHECK(job.fixed.zero == 0);
  CHECK(job.fixed.recompute->kind == RecomputeKind::Full);
  CHECK(std::any_of(job.inputs.begin(), job.inputs.end(),
                    [](const Input& input) { return input.key == "zero" && input.guessed; }));
}

TEST_CASE("a DeepSpeed file that leaves its precision open guesses it and says so") {
  const LaunchJob job = job_of("ds.json", "{\"zero_optimization\": {\"stage\": 3}, \"bf16\": {\"enabled\": \"auto\"}}");
  CHECK(job.training->precision == Precision::Bf16);
  CHECK(std::any_of(job.inputs.begin(), job.inputs.end(),
                    [](const Input& input) { return input.key == "precision" && input.guessed; }));
}

TEST_CASE("NeMo-RL's files lie over others, and DTensor is not Megatron") {
  const Files files;
  files.folder.write("base.yaml",
                     "policy:\n  model_name: meta-llama/Meta-Llama-3-8B\n  train_global_batch_size: 64\n"
                     "  train_micro_batch_size: 2\n  max_total_sequence_length: 4096\n  dtensor_cfg:\n"
                     "    enabled: true\n    tensor_parallel_size: 2\n  megatron_cfg:\n    enabled: false\n"
                     "    tensor_model_parallel_size: 4\ncluster:\n  num_nodes: 1\n  gpus_per_node: 8\n");
  const Result<LaunchJob> dtensor = files.read("a.yaml", "defaults: base.yaml\npolicy:\n  train_micro_batch_size: 1\n");
  REQUIRE(dtensor);
  CHECK(dtensor->fixed.tp == 2);
  CHECK(dtensor->fixed.zero == 3);
  CHECK(dtensor->fixed.micro_batch == 1);
  CHECK(dtensor->training->global_batch == 64);
  const Result<LaunchJob> megatron = files.read(
      "b.yaml",
      "defaults: base.yaml\npolicy:\n  dtensor_cfg:\n    enabled: false\n  megatron_cfg:\n    enabled: true\n");
  REQUIRE(megatron);
  CHECK(megatron->fixed.tp == 4);
  const Result<LaunchJob> alone = files.read("c.yaml", "defaults: gone.yaml\npolicy:\n  train_micro_batch_size: 1\n");
  REQUIRE(alone);
  CHECK(names(alone->unused, "gone.yaml"));
}

TEST_CASE("one recipe of a module is read, and none of several is taken for it") {
  const std::string module =
      "from torchtitan.models.llama3 import model_registry\n\n\n"
      "def llama3_8b() -> Trainer.Config:\n    model_spec = model_registry(\"8B\")\n    return Trainer.Config(\n"
      "        model_spec=model_spec,\n        training=TrainingConfig(\n"
      "            num_tokens_per_microbatch_per_dp_rank=2 * 8192,\n            max_context_length=8192,\n        ),\n"
      "        activation_checkpoint=FullAC.Config(),\n    )\n\n\n"
      "def llama3_8b_tp() -> Trainer.Config:\n    config = llama3_8b()\n"
      "    config.parallelism.tensor_parallel_degree = 4\n    return config\n";
  const Files files;
  const std::string path = files.folder.write("config_registry.py", module);
  const LaunchContext eight{.model = {}, .gpus = 8, .gpus_per_node = 8, .arguments = {}};
  const Result<LaunchJob> none = read_launch_files({path}, eight);
  REQUIRE_FALSE(none);
  CHECK(none.error().front().code == "several_recipes");
  const Result<LaunchJob> first = read_launch_files({path + ":llama3_8b"}, eight);
  REQUIRE(first);
  CHECK(first->fixed.tp == 1);
  CHECK(first->fixed.micro_batch == 2);
  CHECK(first->fixed.recompute->kind == RecomputeKind::Full);
  const Result<LaunchJob> second = read_launch_files({path + ":llama3_8b_tp"}, eight);
  REQUIRE(second);
  CHECK(second->fixed.tp == 4);
  CHECK(second->training->seq == 8192);
  CHECK_FALSE(read_launch_files({path + ":llama3_9b"}, eight));
}

TEST_CASE("GPT-NeoX, NeMo and Megatron-LM's arguments as YAML are read by their own keys") {
  const LaunchJob neox =
      job_of("neox.yml",
             "{\n  \"pipe-parallel-size\": 2,\n  \"model_parallel_size\": 4,\n  \"num_layers\": 16,\n"
             "  \"hidden_size\": 2048,\n  \"num_attention_heads\": 16,\n  \"seq_length\": 2048,\n"
             "  \"max_position_embeddings\": 2048,\n  \"pos_emb\": \"rotary\",\n"
             "  \"train_micro_batch_size_per_gpu\": 4,\n  \"gradient_accumulation_steps\": 2,\n"
             "  \"zero_optimization\": {\"stage\": 1},\n  \"fp16\": {\"enabled\": true},\n"
             "  \"checkpoint_activations\": true,\n  \"tokenizer_type\": \"GPT2BPETokenizer\"\n}\n");
  CHECK(neox.fixed.tp == 4);
  CHECK(neox.fixed.pp == 2);
  CHECK(neox.fixed.zero == 1);
  CHECK(neox.rank_batch->steps == 2);
  for (const Input& input : neox.inputs) CHECK(input.key != "global_batch");  // what steps and ranks come to
  CHECK(neox.training->precision == Precision::Fp16);
  CHECK(neox.fixed.recompute->kind == RecomputeKind::Full);
  const LaunchJob nemo =
      job_of("nemo.yaml",
             "trainer:\n  num_nodes: 2\n  devices: 8\n  precision: bf16\nexp_manager:\n  name: x\nmodel:\n"
             "  micro_batch_size: 2\n  global_batch_size: 64\n  tensor_model_parallel_size: 2\n"
             "  pipeline_model_parallel_size: 2\n  encoder_seq_length: 4096\n  num_layers: 32\n"
             "  hidden_size: 4096\n  ffn_hidden_size: 11008\n  num_attention_heads: 32\n"
             "  activation: fast-swiglu\n  bias: false\n  tokenizer:\n    model: meta-llama/Llama-2-7b-hf\n  optim:\n  "
             "  name: distributed_fused_adam\n",
             {.model = {}, .gpus = 0, .gpus_per_node = 0, .arguments = {}});
  CHECK(nemo.gpus == 16);
}

TEST_CASE("a program with Megatron-LM's flags that is not told to train is no training") {
  const std::string layers =
      " --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 --max-position-embeddings 512 "
      "--vocab-size 32000 --tensor-model-parallel-size 2";
  for (const char* program :
       {"tools/merge_mp_partitions.py", "tools/checkpoint_util.py", "tasks/msdp/main.py", "my_own_program.py"}) {
    CAPTURE(program);
    const Files written;
    CHECK_FALSE(written.read("run.sh", std::string("torchrun --nproc_per_node 8 ") + program + layers + "\n"));
  }
  CHECK(Files().read("run.sh", "torchrun --nproc_per_node 8 my_own_program.py" + layers + " --train-iters 100\n"));
}

TEST_CASE("a TOML file is torchtitan's by its own tables and words, not because it has a model") {
  const std::string model = "[model]\nname = \"Qwen/Qwen3-4B\"\n";
  for (const char* others : {"[data]\nseq_len = 1024\nbatch_size = 64\n", "[training]\nlearning_rate = 1e-5\n",
                             "[training]\nepochs = 3\nbatch_size = 8\n[optim]\nlr = 1e-5\n"}) {
    CAPTURE(others);
    const Files written;
    CHECK_FALSE(written.read("other.toml", model + others));
  }
}

TEST_CASE("keys of torchtitan's first releases mean what they mean under their names of today") {
  const auto file = [](const char* text) {
    return job_of("t.toml", std::string("[model]\nname = \"llama3\"\nflavor = \"8B\"\n") + text, on(64));
  };
  const LaunchJob then = file(
      "[training]\nbatch_size = 2\nseq_len = 4096\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\n"
      "tensor_parallel_degree = 4\n[experimental]\npipeline_parallel_degree = 2\ncontext_parallel_degree = 1\n"
      "pipeline_parallel_schedule = \"1F1B\"\n[float8]\nenable_float8_linear = true\n");
  const LaunchJob now = file(
      "converters = [\"quantize.linear.float8\"]\n[training]\nlocal_batch_size = 2\nseq_len = 4096\n[parallelism]\n"
      "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\ntensor_parallel_degree = 4\n"
      "pipeline_parallel_degree = 2\ncontext_parallel_degree = 1\npipeline_parallel_schedule = \"1F1B\"\n");
  each_axis([&](const auto& axis) { CHECK_MESSAGE(then.fixed.*axis.fixed == now.fixed.*axis.fixed, axis.key); });
  CHECK(then.fixed.tp == 4);
  CHECK(then.training->precision == now.training->precision);
  CHECK(then.training->precision == Precision::Fp8Tensorwise);
  CHECK(then.training->seq == 4096);
  CHECK(names(then.notes, "training.tensor_parallel_degree"));
}

TEST_CASE("adapters are trained where their rank or weights in 4 bits say so, but by TRL's own programs") {
  const auto task = [](const std::string& program, const std::string& flags) {
    return job_of("run.sh", "#!/bin/bash\ntorchrun --nnodes 1 --nproc_per_node 8 " + program +
                                " --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 --bf16 true " +
                                flags + "\n")
        .training->task;
  };
  CHECK(task("train.py", "") == Task::FullFinetune);
  CHECK(task("train.py", "--lora_r 16") == Task::Lora);
  CHECK(task("train.py", "--lora_rank 8 --use_4bit") == Task::Qlora);
  CHECK(task("train.py", "--use_4bit_quantization True") == Task::Qlora);
  CHECK(task("train.py", "--load_in_4bit false --lora_r 16") == Task::Lora);
  CHECK(task("train.py", "--lora_r 16 --use_peft false") == Task::FullFinetune);
  CHECK(task("train.py", "--lora_r 16 --use_lora False") == Task::FullFinetune);
  CHECK(task("trl/scripts/sft.py", "--lora_r 16") == Task::FullFinetune);
  CHECK(task("trl/scripts/sft.py", "--lora_r 16 --use_peft") == Task::Lora);
}

TEST_CASE("what attention keeps, what is trained beside adapters and how sequences are split is read or named") {
  const auto job = [](const std::string& flags) {
    return job_of("run.sh",
                  "#!/bin/bash\ntorchrun --nnodes 1 --nproc_per_node 8 train.py --model_name_or_path "
                  "Qwen/Qwen3-8B --per_device_train_batch_size 2 --bf16 true " +
                      flags + "\n");
  };
  CHECK(job("").training->stack.flash_attention);
  CHECK(job("--attn_implementation sdpa").training->stack.flash_attention);
  CHECK_FALSE(job("--attn_implementation eager").training->stack.flash_attention);
  CHECK(names(job("--use_peft --lora_r 8 --modules_to_save embed_tokens,lm_head").unused, "modules_to_save"));
  CHECK(job("--use_peft --lora_r 8 --modules_to_save null").unused.empty());
  CHECK(names(job("--torch_compile True").unused, "torch.compile"));
  for (const char* flag : {"ulysses_degree", "sp_size", "ring_attn_size", "my_cp_size"}) {
    CHECK_MESSAGE(names(job(std::string("--") + flag + " four").unused, flag), flag);
    CHECK(error_of("run.sh",
                   "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen3-8B "
                   "--per_device_train_batch_size 2 --bf16 true --" +
                       std::string(flag) + " 4\n") == "degree_not_read");
  }
}

}  // namespace plan
