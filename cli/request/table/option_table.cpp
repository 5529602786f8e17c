// Every flag, once. Help, completions, the parser and the manual's test read this table.
#include "cli/request/table/option_table.hpp"

#include "cli/launch/launch.hpp"
#include "cli/terminal/overlap_words.hpp"
#include "cli/terminal/words.hpp"
#include "planner/rules/frameworks.hpp"

namespace plan {
namespace {

using Words = std::vector<std::string>;

Words framework_words() {
  Words words;
  for (const FrameworkRow& row : frameworks()) words.emplace_back(row.name);
  return words;
}
Words precision_words() { return words_of(kPrecisionNames); }
Words optimizer_words() { return words_of(kOptimizerNames); }
Words task_words() { return words_of(kTaskNames); }
Words dispatcher_words() { return words_of(kDispatcherNames); }
Words objective_words() { return words_of(kObjectiveNames); }
Words format_words() { return words_of(kFormatNames); }
Words color_words() { return {"auto", "always", "never"}; }
Words shell_words() { return {"bash", "zsh", "fish"}; }
Words risk_words() { return {"yes", "at-risk"}; }
Words list_words() { return {"models", "gpus", "clusters", "frameworks", "formulas", "rules", "terms", "limits"}; }

constexpr std::string_view kTrain = "What to train", kOn = "On what", kHow = "How", kFiles = "The files",
                           kAnswer = "The answer", kPrint = "Printing", kMore = "More";
constexpr std::string_view kMeasure = "What to measure", kJob = "The job", kRun = "What was measured";

constexpr Option text_option(std::string_view flag, std::string_view argument, std::string_view group,
                             Complete complete, std::uint16_t verbs, Args::Text Args::*value, std::string_view help,
                             std::string_view more = {}) {
  return {.flag = flag,
          .letter = 0,
          .argument = argument,
          .group = group,
          .help = help,
          .more = more,
          .complete = complete,
          .verbs = verbs,
          .value = value};
}

constexpr Option pick(std::string_view flag, std::string_view argument, std::string_view group, Words (*words)(),
                      std::uint16_t verbs, Args::Text Args::*value, std::string_view help, std::string_view more = {}) {
  Option option = text_option(flag, argument, group, Complete::Words, verbs, value, help, more);
  option.words = words;
  return option;
}

constexpr Option turn_on(std::string_view flag, std::string_view group, std::uint16_t verbs, bool Args::*on,
                         std::string_view help, std::string_view more = {}) {
  Option option = text_option(flag, "", group, Complete::Nothing, verbs, nullptr, help, more);
  option.on = on;
  return option;
}

constexpr Option lettered(Option option, char letter) {
  option.letter = letter;
  return option;
}

constexpr Option repeated(std::string_view flag, std::string_view argument, std::string_view group, std::uint16_t verbs,
                          std::vector<std::string> Args::*values, std::string_view help, std::string_view more = {}) {
  Option option = text_option(flag, argument, group, Complete::Nothing, verbs, nullptr, help, more);
  option.values = values;
  return option;
}

constexpr Option from_file(Option option) {
  option.complete = Complete::File;
  return option;
}

constexpr auto kNothing = Complete::Nothing;
constexpr std::uint16_t kReport = kForPlan | kForEstimate, kForRuns = kForValidate | kForCalibrate;

constexpr Option kOptions[] = {
    text_option("--model", "NAME|FILE", kTrain, Complete::Models, kForProblem | kForProbe, &Args::model,
                "preset (405b), YAML file, config.json or its folder",
                "Names and aliases: `plan list models`. A folder is read for its config.json."),
    text_option("--seq", "N", kTrain, kNothing, kForProblem | kForProbe, &Args::seq, "tokens per sequence",
                "8192, 8k or 1M; k is 1024. Default: as the model was published."),
    text_option(
        "--global-batch", "N", kTrain, kNothing, kForProblem, &Args::global_batch,
        "sequences per step, or tokens: `16M tokens`",
        "`16M tokens` counts in powers of two if the number is one, as the field does (16 M = 16 777 216), else in "
        "powers of ten. Default: as the model was published."),
    from_file(
        repeated("--from", "FILE", kTrain, kForProblem | kForCheck, &Args::from,
                 "launch file that states model, training and layout",
                 "A Megatron-LM script or any file that `plan emit` writes, and the config.json beside it. May be "
                 "repeated: several files make one job. Flags override what files state. `FILE.py:NAME` picks one "
                 "recipe of a module.")),
    text_option("--args", "'8B 1 8'", kTrain, kNothing, kForProblem | kForCheck, &Args::arguments,
                "words that the script of --from is given: its $1, $2, ..."),
    turn_on("--strict", kTrain, kForProblem | kForCheck, &Args::strict,
            "refuse an answer that hangs on what nobody stated",
            "Or on a fact of a launch file that has no meaning here. What the framework itself takes as its default "
            "is no guess."),

    pick("--precision", "WORD", kTrain, precision_words, kForProblem, &Args::precision, "number format of the GEMMs",
         "Default: bf16, or fp16 on GPUs that have none. One that the GPU lacks is refused."),
    text_option("--bf16-layers", "1,1", kTrain, kNothing, kForProblem, &Args::bf16_layers,
                "layers that stay in bf16 beside fp8 or nvfp4",
                "So many at the start of the model and so many at its end (Megatron, torchtitan). Default: none."),
    pick("--optimizer", "WORD", kTrain, optimizer_words, kForProblem, &Args::optimizer, "optimizer",
         "Default: adam with fp32 states."),
    text_option(
        "--state-formats", "grads=bf16,...", kTrain, kNothing, kForProblem, &Args::state_formats,
        "number formats of gradients, weights and moments",
        "Of the optimizer: grads=bf16, master=fp16, moments=bf16 or fp8, or moment1 and moment2 apart (Megatron, or "
        "--framework none). kept=fp8: weights of products and what SwiGLU reads, as DeepSeek keeps them (--framework "
        "none). Default: fp32, and kept=bf16."),
    text_option("--cuda-graphs", "attn+mlp|full", kTrain, kNothing, kForProblem, &Args::cuda_graphs,
                "what CUDA graphs launch",
                "none, full (the whole iteration), or parts of a layer: attn, mamba, mlp, moe_router, moe_preprocess "
                "(Megatron). Default: none."),
    text_option(
        "--overlap", "grads+tp", kTrain, kNothing, kForProblem, &Args::overlap, "messages that run beside compute",
        "none, or of these: grads, params, tp, p2p, experts (Megatron; grads alone: DeepSpeed). Default: grads, "
        "params and p2p."),
    pick("--dispatcher", "WORD", kTrain, dispatcher_words, kForProblem, &Args::dispatcher,
         "how tokens reach their experts",
         "alltoall: a copy for each expert. flex: one for each node, by DeepEP or HybridEP (Megatron, on Hopper and "
         "Blackwell, and there the default)."),
    text_option(
        "--imbalance", "1.3", kTrain, kNothing, kForProblem, &Args::imbalance, "how unevenly experts get tokens",
        "Tokens of the busiest rank over the mean. Routers that choose freely reach about 1.3. Default: 1, balance."),
    text_option(
        "--diloco", "500,copies=4", kTrain, kNothing, kForProblem, &Args::diloco,
        "copies train apart and meet every so many steps",
        "DiLoCo: an outer optimizer takes what the copies moved. Default of copies: the sites of the cluster. No "
        "framework that plan writes for does it: add --framework none."),
    pick("--task", "WORD", kTrain, task_words, kForProblem, &Args::task, "pretrain, finetune, lora or qlora",
         "Default: pretrain."),
    text_option("--lora-rank", "N", kTrain, kNothing, kForProblem, &Args::lora_rank, "rank of the adapters",
                "With --task lora or qlora. Default: 16."),
    text_option(
        "--offload", "optimizer,...", kTrain, kNothing, kForProblem, &Args::offload, "what lies in host memory",
        "optimizer or optimizer=0.5 (share of the states), parameters (sharded weights and gradients), layers=4 or "
        "core_attn+attn_proj (activations, Megatron). Default: nothing."),
    text_option("--tokens", "N", kTrain, kNothing, kReport | kForSweep, &Args::tokens,
                "tokens of the whole run, for its days and cost", "15.6T; K, M, B and T are powers of ten."),

    from_file(
        repeated("--log", "FILE", kRun, kForDiagnose, &Args::log, "what the run printed; repeat for several ranks",
                 "Logs of Megatron-LM and its forks, Megatron-Bridge, NeMo, torchtitan, DeepSpeed, MaxText, verl, "
                 "nanotron, torchtune, LLaMA-Factory, OLMo, OLMo-core, Composer, InternEvo and Hugging Face's Trainer, "
                 "with what NCCL and PyTorch print among them.")),
    turn_on(
        "--follow", kRun, kForDiagnose, &Args::follow, "read on while the job runs",
        "Prints again as steps come: the whole on a terminal, else a line. Ends with the run, or when interrupted."),
    text_option("--for", "10min", kRun, kNothing, kForDiagnose, &Args::duration, "how long to follow",
                "Seconds, or 90s, 10min, 2h. Default: until the run ends."),
    text_option("--every", "10", kRun, kNothing, kForDiagnose, &Args::every,
                "steps from one line of --follow to the next"),
    from_file(repeated("--trace", "FILE", kRun, kForDiagnose, &Args::trace, "profiler's trace of a rank",
                       "PyTorch's profiler (JSON, also gzip), or an export of Nsight Systems (SQLite).")),
    from_file(repeated("--nsys", "FILE", kRun, kForDiagnose, &Args::trace, "export of Nsight Systems",
                       "A trace too: each is known by what it holds.")),
    from_file(repeated("--snapshot", "FILE", kRun, kForDiagnose, &Args::snapshot, "memory snapshot of a rank",
                       "Written by torch.cuda.memory._dump_snapshot.")),
    text_option("--append", "FILE", kRun, Complete::File, kForDiagnose, &Args::append, "add the run to this CSV file",
                "A row of plan-runs(5), for `plan validate` and `plan calibrate`; the file is made if there is none."),
    from_file(repeated(
        "--smi", "FILE", kRun, kForDiagnose | kForCheck, &Args::smi, "CSV of nvidia-smi taken while it ran",
        "Written by `nvidia-smi --query-gpu=... --format=csv -l 5`, with the index, the utilization, the memory "
        "used, the clocks and the reasons of clock events among the columns.")),
    from_file(repeated("--measured", "LOG", kRun, kForCheck, &Args::measured, "hold the limits against a run's log",
                       "Any log that `plan diagnose` reads; repeat for several ranks. What it does not show is judged "
                       "as predicted.")),

    text_option("--gpus", "N", kOn, kNothing, kForProblem | kForProbe, &Args::gpus, "number of GPUs",
                "16384 or 16k; k is 1024."),
    text_option(
        "--slice", "4x4x8", kOn, kNothing, kForProblem, &Args::slice, "shape of a slice of TPUs",
        "Chips along each axis; more GPUs than it has are several slices. Default: the slice of that many chips."),
    text_option("--gpu", "NAME|FILE", kOn, Complete::Gpus, kForProblem | kForCalibrate | kForProbe, &Args::gpu,
                "kind of GPU, in its usual cluster", "`plan list gpus`. Default: h100-sxm."),
    text_option("--cluster", "NAME|FILE", kOn, Complete::Clusters, kForProblem | kForCalibrate | kForProbe,
                &Args::cluster, "GPUs and network", "`plan list clusters`. Default: dgx-h100."),
    text_option("--profile", "FILE", kOn, Complete::File, kForProblem | kForRuns | kForCheck, &Args::profile,
                "a measured cluster", "Its numbers take the place of the data sheets'."),
    text_option(
        "--host-memory", "2TiB", kOn, kNothing, kForProblem, &Args::host_memory, "memory of each node's host",
        "What is offloaded has to fit there; a bare number counts GiB. In a sweep also factors, 0.5x..2x. Default: the "
        "cluster's, where its file states it."),
    text_option("--inter-bandwidth", "0.5x..4x", kOn, kNothing, kForSweep, &Args::inter_bandwidth,
                "factors of the bandwidth between nodes"),
    text_option("--intra-bandwidth", "0.5x..4x", kOn, kNothing, kForSweep, &Args::intra_bandwidth,
                "factors of the bandwidth inside the scale-up domain"),
    text_option("--memory", "0.5x..2x", kOn, kNothing, kForSweep, &Args::memory, "factors of the GPU's memory"),
    text_option("--price", "USD", kOn, kNothing, kReport | kForSweep, &Args::price, "price of a GPU-hour",
                "Default: the preset's, where it has one."),
    text_option("--spares", "N", kOn, kNothing, kReport | kForSweep | kForEmit, &Args::spares,
                "GPUs of --gpus held back to replace broken ones", "They are paid for and train nothing. Default: 0."),
    text_option("--gpu-mtbf", "HOURS", kOn, kNothing, kReport | kForSweep | kForEmit, &Args::gpu_mtbf,
                "mean time between failures of one GPU", "50700h. Default: the cluster preset's, where it has one."),
    text_option("--storage", "2TB/s", kOn, kNothing, kReport | kForSweep | kForEmit, &Args::storage,
                "bandwidth of the job to where checkpoints go",
                "Default: 81 MB/s a GPU, what Llama 3's cluster of 24,576 had."),
    text_option("--restart", "10min", kOn, kNothing, kReport | kForSweep, &Args::restart,
                "from an interruption to training again",
                "Default: 10 minutes, below which MegaScale stayed on average, and reading the checkpoint."),
    text_option("--lose", "1..4", kOn, kNothing, kForSweep, &Args::lose,
                "nodes lost: the layout without them, and its price",
                "Every number from the first to the last, beside the whole job."),

    pick("--framework", "NAME", kHow, framework_words, kForProblem, &Args::framework,
         "only what this framework accepts",
         "`plan list frameworks`. any: one of them, whichever (default); none: what divides, whether or not anything "
         "runs it."),
    text_option("--megatron-version", "RELEASE", kHow, kNothing, kForProblem, &Args::megatron_version,
                "release of Megatron core that runs the plan",
                "0.12 or newer, with --framework megatron. Default: the newest known."),
    text_option("--release", "YY.MM", kHow, kNothing, kForProblem, &Args::release,
                "month of the software's container, 26.04",
                "With Megatron. Default: that of the image which a launch file names, else the newest known."),
    text_option(
        "--layout", "tp8,pp16,...", kHow, kNothing, kForProblem, &Args::layout, "fix axes; the search varies the rest",
        "tp cp pp vp dp ep etp zero shard mb with a number (tp8 or tp=8); cp-kind, schedule, recompute and layers with "
        "= and a word (schedule=1f1b, recompute=full, recompute=core_attn+mlp, layers=7+8+8+7 per chunk); sp or "
        "sp=off."),
    text_option(
        "--headroom", "5%|4GiB|0", kHow, kNothing, kForProblem, &Args::headroom, "memory that has to stay free",
        "A share of the GPU's memory or an amount. Default: as much as the predicted peak may be too low by, so that a "
        "plan fits with 95 % certainty."),
    turn_on("--accept-risk", kHow, kForProblem, &Args::accept_risk, "take a plan that may fit, but not for certain"),
    pick("--objective", "WORD", kHow, objective_words, kForPlan | kForExplain | kForSweep, &Args::objective,
         "what is best: time, memory or cost", "Default: time, the shortest step."),

    pick("--launcher", "NAME", kFiles, launcher_words, kForEmit, &Args::launcher, "what starts the job on every node",
         "slurm, torchrun, k8s (a Kubeflow TrainJob), skypilot or hostfile. Default: slurm."),
    text_option("--data-path", "PATH", kFiles, kNothing, kForEmit, &Args::data_path, "training data",
                "Default: the framework's mock data, so that the files run unedited."),
    text_option("--tokenizer", "NAME|PATH", kFiles, kNothing, kForEmit, &Args::tokenizer, "tokenizer",
                "Default: a null tokenizer with the model's vocabulary."),
    text_option("--checkpoint-dir", "PATH", kFiles, kNothing, kForEmit, &Args::checkpoint_dir, "where checkpoints go",
                "Default: nothing is saved."),
    text_option("--image", "NAME", kFiles, kNothing, kForEmit, &Args::image,
                "container image for --launcher slurm, k8s and skypilot"),
    text_option("--site", "FILE", kFiles, Complete::File, kForEmit, &Args::site,
                "what the cluster asks of a job that runs for days",
                "YAML: folders, partition, account, container, variables, binding, preflight. See plan-emit(1)."),

    text_option("--top", "N", kAnswer, kNothing, kForPlan, &Args::top, "layouts to report, the best included",
                "Default: 4."),
    turn_on("--pareto", kAnswer, kForPlan, &Args::pareto, "add every layout that no other beats in time and memory"),
    turn_on("--per-stage", kAnswer, kForPlan, &Args::per_stage, "add the best layers and recomputation of every stage"),
    turn_on("--per-layer", kAnswer, kForPlan, &Args::per_layer, "add the best strategy of every run of layers"),
    turn_on("--advice", kAnswer, kForPlan, &Args::advice, "add what another batch, switch, GPU or GiB would bring",
            "Each is a search of its own with one thing changed."),
    text_option("--deadline", "60d", kAnswer, kNothing, kForSweep, &Args::deadline,
                "find the fewest GPUs that train --tokens in so many days"),
    turn_on("--all", kAnswer, kForExplain, &Args::all, "explain every term that a report prints"),
    turn_on("--timeline", kAnswer, kReport, &Args::timeline, "draw the pipeline, a row a stage",
            "Digits are forwards, letters backwards, dots waiting; --format trace has it all."),
    text_option("--stage", "N", kAnswer, kNothing, kForExplain, &Args::stage, "stage to explain",
                "Default: the stage with the highest peak."),
    repeated("--set", "s=2048,...", kAnswer, kForFormula, &Args::set, "values of the formula's symbols",
             "May be repeated. Symbols left out take the formula's typical value."),
    turn_on("--rough", kAnswer, kForRuns, &Args::rough, "use runs of quality C too"),
    text_option("--rows", "FILE", kAnswer, Complete::File, kForValidate, &Args::rows, "write one CSV line a run",
                "Measured, predicted, error and interval, or the reason why a run is not scored."),
    text_option(
        "--tp", "1,2,4,8", kMeasure, kNothing, kForProbe, &Args::tp, "tensor parallelism of the model's shapes",
        "With --model: its exact GEMMs and attention are measured at these degrees. Default: 1,2,4,8, as they divide."),
    text_option("--dtypes", "bf16,fp8,...", kMeasure, kNothing, kForProbe, &Args::dtypes, "number formats of the GEMMs",
                "fp32, fp16, bf16, fp8, mxfp8, nvfp4. Default: bf16, and fp8 where the GPU has it."),
    turn_on("--quick", kMeasure, kForProbe, &Args::quick, "45 s on one GPU, 3 minutes on a node (default)"),
    turn_on("--standard", kMeasure, kForProbe, &Args::standard, "ten minutes: whole grids, every message size"),
    turn_on("--thorough", kMeasure, kForProbe, &Args::thorough, "half an hour"),
    turn_on("--dry-run", kMeasure, kForProbe, &Args::dry_run, "print what would be measured and how long it takes"),
    text_option("--resume", "FILE", kMeasure, Complete::File, kForProbe, &Args::resume,
                "measure what this profile lacks"),
    repeated("--import", "FILE", kMeasure, kForProbe, &Args::import_files, "take other tools' results instead",
             "nccl-tests and rccl-tests (table or -J), nvbandwidth and perftest (text or JSON), `nvidia-smi topo -m`. "
             "Further files may follow as words."),
    text_option("--op", "NAME", kMeasure, kNothing, kForProbe, &Args::op,
                "operation of imported results that do not say it",
                "all_reduce, all_gather, reduce_scatter, all_to_all, send_recv or broadcast."),
    text_option("--ranks", "N|NODESxN", kMeasure, kNothing, kForProbe, &Args::ranks,
                "GPUs that took part in imported results that do not say it"),
    text_option("--diff", "FILE|NAME", kMeasure, Complete::File, kForProbe, &Args::diff,
                "compare with a profile or a preset",
                "Given a profile as a word, nothing is measured: plan probe new.yaml --diff old.yaml."),
    turn_on("--check", kMeasure, kForProbe, &Args::look, "say what a probe would meet, and measure nothing"),
    turn_on("--transport-check", kMeasure, kForProbe, &Args::transport_check,
            "let the ranks meet and exchange host buffers; needs no GPU"),
    text_option("--nccl-lib", "FILE", kJob, Complete::File, kForProbe, &Args::nccl_lib,
                "the libnccl.so.2 that training loads",
                "Default: LD_LIBRARY_PATH, then the Python environment's, then the system's."),
    text_option("--cublas-lib", "FILE", kJob, Complete::File, kForProbe, &Args::cublas_lib,
                "the libcublasLt that training loads"),
    text_option("--cudnn-lib", "FILE", kJob, Complete::File, kForProbe, &Args::cudnn_lib,
                "the libcudnn.so.9 that training loads"),
    text_option("--rendezvous", "ADDRESS", kJob, kNothing, kForProbe, &Args::rendezvous,
                "where ranks meet: HOST:PORT or file:FOLDER",
                "Default: what the launcher says; a file in the output's folder where it says nothing."),
    text_option(
        "--timeout", "10s", kJob, kNothing, kForProbe | kForCapture, &Args::timeout,
        "probe: longest silence of a rank; capture: longest run of the command",
        "probe: after that it is named and the others stop; ranks have twelve times as long to join. capture: 60 s if "
        "not given."),
    turn_on("--resolve", kJob, kForCapture, &Args::resolve, "let hydra's programs print their configuration",
            "Runs each with --cfg job --resolve, where it is installed; it trains nothing."),
    turn_on("--allow-busy", kJob, kForProbe, &Args::allow_busy, "measure GPUs that others use"),
    turn_on("--allow-different", kJob, kForProbe, &Args::allow_different, "measure GPUs of different kinds together"),
    repeated("--budget", "FILE|120s", kAnswer, kForCheck | kForProbe, &Args::budget,
             "check: limits to hold the jobs to; probe: time to spend",
             "check: plan-budget(5) says what the file holds; may be repeated, and words after it are budgets too. "
             "probe: seconds, or 90s, 5min; the least informative measurements wait and are listed in the profile."),
    text_option(
        "--baseline", "FILE", kAnswer, Complete::File, kForCheck, &Args::baseline, "an earlier report to compare with",
        "What `plan --json`, `plan estimate --json` or `plan check --json` wrote; `none` leaves the limits since the "
        "baseline out."),
    pick("--risk", "WORD", kAnswer, risk_words, kForCheck, &Args::risk, "what an interval that reaches past a limit is",
         "yes: the upper end has to fit (default). at-risk: what may fit is a warning."),
    turn_on("--require-profile", kAnswer, kForCheck, &Args::require_profile,
            "fail where the hardware was not measured"),
    turn_on("--warn-only", kAnswer, kForCheck, &Args::warn_only, "report failures as warnings; the exit status is 0"),
    turn_on("--names", kAnswer, kForList, &Args::names, "names only, one a line"),

    pick("--format", "WORD", kPrint, format_words, kForAll, &Args::format, "human, json, html, trace, ...",
         "html is one page with pictures and no script; trace opens in ui.perfetto.dev; github, markdown, junit and "
         "sarif go with `plan check`."),
    turn_on("--json", kPrint, kForAll, &Args::json, "the same as --format json"),
    lettered(
        text_option("--output", "FILE", kPrint, Complete::File, kForAll, &Args::output, "write the result to a file",
                    "The file appears whole or not at all. - is the standard output."),
        'o'),
    turn_on("--force", kPrint, kForAll, &Args::force, "write over a file of another kind",
            "A file that the command reads is never written over."),
    pick("--color", "WHEN", kPrint, color_words, kForAll, &Args::color, "auto, always or never",
         "auto: on a terminal, unless NO_COLOR is set."),
    turn_on("--ascii", kPrint, kForAll, &Args::ascii, "draw bars with #"),
    turn_on("--quiet", kPrint, kForAll, &Args::quiet, "print errors only; the exit status answers"),

    text_option("--threads", "N", kMore, kNothing, kForProblem | kForCheck, &Args::threads, "threads of the search",
                "Default: one per core. The answer is the same on any number."),
    pick("--list", "WHAT", kMore, list_words, kForPlan, &Args::list, "the same as `plan list`"),
    pick("--completion", "SHELL", kMore, shell_words, kForPlan, &Args::completion, "print the shell's completions",
         "bash, zsh or fish."),
    turn_on("--version", kMore, kForAll, &Args::version, "print the version"),
    lettered(turn_on("--help", kMore, kForAll, &Args::help, "print help; -h is the short form"), 'h'),
};

}  // namespace

std::span<const Option> options() { return kOptions; }

const Option* find_option(std::string_view flag) {
  for (const Option& option : kOptions)
    if (option.flag == flag || (flag.size() == 2 && option.letter != 0 && flag[0] == '-' && flag[1] == option.letter))
      return &option;
  return nullptr;
}

const Option* option_of(std::string_view key) {
  return find_option(key == "price_per_hour" ? "--price" : "--" + folded(key));
}

}  // namespace plan
