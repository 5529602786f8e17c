// A plan as torchtitan v0.2.2's TOML file or as a recipe of its main branch. Keys: torchtitan v0.2.2
// config/job_config.py, main b5bcd76c config/configs.py. Tested by tests/frameworks/framework_files_test.cpp and by
// torchtitan itself, tests/validators/.
#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/start/launcher.hpp"
#include "cli/launch/start/upkeep.hpp"
#include "cli/launch/torchtitan/filters.hpp"
#include "cli/launch/torchtitan/torchtitan.hpp"
#include "formulas/schedule.hpp"

namespace plan {
namespace {

using torchtitan::Flavor;

/// What both dialects say in other words.
struct Values {
  const Flavor* flavor = nullptr;
  std::int64_t micro_batches = 1;
  int replicate = 1;
  int shard = 1;
  std::string_view reshard = "default";
  std::string_view schedule = "1F1B";
  std::vector<int> chunks{};
  std::optional<torchtitan::Split> split{};
  bool compile = true;
};

Values values_of(const Plan& plan) {
  const Layout& l = plan.best.layout;
  Values v;
  v.micro_batches = micro_batches(plan.problem.training.global_batch, l.dp, l.micro_batch);
  v.shard = l.zero == 0 ? 1 : l.shard_group() / l.cp;
  v.replicate = l.dp / v.shard;
  if (l.zero >= 2) v.reshard = l.zero == 3 ? "always" : "never";
  v.schedule = schedule_row(l.schedule).torch;
  if (l.pp > 1) {
    v.chunks = l.chunk_layers;
    v.split = torchtitan::split_for(v.chunks, plan.problem.model.depth());
  }
  // A backward pass in two halves reads its graph twice, which a compiled one does not allow (donated buffers).
  v.compile = plan.problem.training.stack.fused_pointwise && !(l.pp > 1 && splits_backward(l.schedule));
  return v;
}

/// Names of the modules of every part, for splits that weights at the ends do not express.
std::string parts(const Values& v, std::string_view head, std::string_view indent) {
  std::string out = "[\n";
  int layer = 0;
  for (std::size_t i = 0; i < v.chunks.size(); ++i) {
    std::vector<std::string> names;
    if (i == 0) names.emplace_back("tok_embeddings");
    for (int k = 0; k < v.chunks[i]; ++k) names.push_back(fmt::format("layers.{}", layer++));
    if (i + 1 == v.chunks.size()) names.emplace_back("norm"), names.emplace_back(head);
    out += fmt::format("{}  [\"{}\"],\n", indent, fmt::join(names, "\", \""));
  }
  return out + fmt::format("{}]", indent);
}

/// `n` for every n-th layer of a chunk, where that is as many as the plan recomputes; 0: there is no such number.
int every_nth(const Plan& plan, const Values& v) {
  const int layers = plan.best.layout.recompute.layers;
  const int deepest =
      v.chunks.empty() ? plan.problem.model.depth() : *std::max_element(v.chunks.begin(), v.chunks.end());
  return layers > 0 && deepest / layers > 1 && deepest / (deepest / layers) == layers ? deepest / layers : 0;
}

Result<Values> checked(const Plan& plan, std::string_view format) {
  if (const Result<bool> fits = expressible(plan, Framework::Torchtitan, format); !fits)
    return tl::unexpected(fits.error());
  const Training& training = plan.problem.training;
  if (training.adapters()) return cannot(format, "trains whole models, no adapters");
  if (training.optimizer != Optimizer::Adam) return cannot(format, "has the Adam family of optimizers only");
  const Offload& offload = training.offload;
  if (offload.any() && (offload.optimizer < 1 || !offload.parameters))
    return cannot(format, "offloads weights, gradients and all states together",
                  "write `--offload optimizer,parameters`");
  Values v = values_of(plan);
  v.flavor = torchtitan::flavor_of(plan.problem.model);
  if (v.flavor == nullptr)
    return cannot(format, fmt::format("has no flavor with the layers of {}: its models are names, not numbers",
                                      plan.problem.model.name));
  if (plan.best.layout.pp > 1 && v.chunks.empty()) return cannot(format, "needs the layers of every stage");
  const int block = plan.best.layout.recompute.layers;
  if (block > 0 && (every_nth(plan, v) == 0 || format != "torchtitan"))
    return cannot(format, fmt::format("has no word for recomputing {} layers of a chunk", block),
                  "add `--layout recompute=full` or `recompute=op`");
  return v;
}

std::string_view on(bool value) { return value ? "true" : "false"; }

std::string toml_parallelism(const Layout& l, const Values& v) {
  std::string out = "\n[parallelism]\n";
  out += fmt::format("data_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n", v.replicate, v.shard);
  out += fmt::format("fsdp_reshard_after_forward = \"{}\"\n", v.reshard);
  out += fmt::format("tensor_parallel_degree = {}\ncontext_parallel_degree = {}\n", l.tp, l.cp);
  if (l.cp > 1)
    out +=
        fmt::format("context_parallel_rotate_method = \"{}\"\n", l.cp_kind == CpKind::Ring ? "alltoall" : "allgather");
  out += fmt::format("pipeline_parallel_degree = {}\n", l.pp);
  if (l.pp > 1) {
    out += fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n", v.schedule,
                       l.micro_batch);
    if (v.split && (v.split->first != 1 || v.split->last != 1))
      out +=
          fmt::format("pipeline_parallel_first_stage_less_layers = {}\npipeline_parallel_last_stage_less_layers = {}\n",
                      v.split->first, v.split->last);
    if (v.split)
      out += fmt::format("pipeline_parallel_layers_per_stage = {}\n", v.split->per_stage);
    else
      out += fmt::format("module_fqns_per_model_part = {}\n", parts(v, "output", ""));
  }
  if (l.ep > 1) out += fmt::format("expert_parallel_degree = {}\nexpert_tensor_parallel_degree = {}\n", l.ep, l.etp);
  return out;
}

/// `["output", "layers.0."]`
std::string quoted(const std::vector<std::string>& names) {
  return fmt::format("[\"{}\"]", fmt::join(names, "\", \""));
}

std::vector<std::string> layers_of(const Plan& plan, bool in_bf16) {
  return torchtitan::layer_names(plan.problem.training.bf16_layers, plan.problem.model.depth(), in_bf16);
}

std::string toml_precision(const Plan& plan) {
  const Training& training = plan.problem.training;
  const bool gathers_fp8 = training.stack.fp8_param_gather && plan.best.layout.zero >= 2;
  std::vector<std::string> filters = layers_of(plan, true);
  filters.insert(filters.begin(), "output");
  switch (training.precision) {
    case Precision::Fp8Tensorwise:
      return fmt::format(
          "\n[quantize.linear.float8]\nenable_fsdp_float8_all_gather = {0}\n"
          "precompute_float8_dynamic_scale_for_fsdp = {0}\nfilter_fqns = {1}\n",
          on(gathers_fp8), quoted(filters));
    case Precision::Mxfp8: return fmt::format("\n[quantize.linear.mx]\nfilter_fqns = {}\n", quoted(filters));
    case Precision::Fp32:
    case Precision::Fp16:
    case Precision::Bf16:
    case Precision::Fp8Delayed:
    case Precision::Fp8Blockwise:
    case Precision::Nvfp4: break;  // rules say which of these torchtitan trains in
  }
  return "";
}

std::string_view converter(Precision precision) {
  if (precision == Precision::Fp8Tensorwise) return "\"quantize.linear.float8\"";
  return precision == Precision::Mxfp8 ? "\"quantize.linear.mx\"" : "";
}

std::string toml_training(const Plan& plan, const EmitOptions& options, const Values& v) {
  const Training& training = plan.problem.training;
  const Layout& l = plan.best.layout;
  std::string out = "\n[training]\n";
  const std::int64_t local = l.pp > 1 ? l.micro_batch * v.micro_batches : l.micro_batch;
  out += fmt::format("local_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n", local, training.global_batch,
                     training.seq);
  if (!options.data_path.empty())
    out += fmt::format("dataset = \"c4\"\ndataset_path = {}\n", string_quoted(options.data_path));
  out +=
      fmt::format("mixed_precision_param = \"{}\"\n", training.precision == Precision::Fp32 ? "float32" : "bfloat16");
  if (training.offload.optimizer > 0) out += "enable_cpu_offload = true\n";
  return out;
}

std::string toml_recompute(const Plan& plan, const Values& v) {
  if (const int nth = every_nth(plan, v); nth > 0)
    return fmt::format("mode = \"selective\"\nselective_ac_option = \"{}\"\n", nth);
  switch (plan.best.layout.recompute.kind) {
    case RecomputeKind::None: return "mode = \"none\"\n";
    case RecomputeKind::Full: return "mode = \"full\"\n";
    case RecomputeKind::Selective: return "mode = \"selective\"\nselective_ac_option = \"op\"\n";
  }
  return "";
}

/// Environment of torchtitan's own run_train.sh.
std::vector<std::pair<std::string, std::string>> environment() {
  return {{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}};
}

std::string identifier(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return text;
}

}  // namespace

Result<std::vector<LaunchFile>> write_torchtitan(const Plan& plan, const EmitOptions& options) {
  const Result<Values> v = checked(plan, "torchtitan");
  if (!v) return tl::unexpected(v.error());
  const Training& training = plan.problem.training;
  const std::string assets =
      options.tokenizer.empty() ? fmt::format("./assets/hf/{}", v->flavor->assets) : options.tokenizer;
  std::string out = fmt::format(
      "# {}\n# For torchtitan v0.2.2: torchrun ... -m torchtitan.train --job.config_file FILE\n", plan_line(plan));
  if (plan.problem.model.mtp.depth > 0)
    out += "# torchtitan trains no multi-token prediction: its part of the plan falls away.\n";
  out += fmt::format("[job]\ndescription = \"{}\"\n", job_name(plan, options));
  out += fmt::format("\n[model]\nname = \"{}\"\nflavor = \"{}\"\nhf_assets_path = {}\n", v->flavor->family,
                     v->flavor->flavor, string_quoted(assets));
  if (const std::string_view name = converter(training.precision); !name.empty())
    out += fmt::format("converters = [{}]\n", name);
  out += toml_training(plan, options, *v) + toml_parallelism(plan.best.layout, *v);
  out += "\n[activation_checkpoint]\n" + toml_recompute(plan, *v);
  out += fmt::format("\n[compile]\nenable = {}\n", on(v->compile));
  out += toml_precision(plan);
  if (const std::string folder = checkpoint_folder(plan, options); !folder.empty()) {
    out += fmt::format("\n[checkpoint]\nenable = true\nfolder = {}\ninterval = {}\n", string_quoted(folder),
                       upkeep_of(plan, options).every);
    if (options.site) out += "async_mode = \"async\"\n";
  }

  LaunchCommand command;
  command.title = plan_line(plan);
  command.environment = environment();
  command.program = command.plain_program = "-m torchtitan.train";
  command.groups = {{"TRAIN_ARGS", {"--job.config_file torchtitan.toml"}}};
  command.stem = "torchtitan";
  Result<std::vector<LaunchFile>> files = write_launcher(command, plan, options);
  if (!files) return files;
  files->insert(files->begin(), LaunchFile{"torchtitan.toml", out, false});
  return files;
}

namespace {

std::string_view checkpointing(const Recompute& recompute) {
  switch (recompute.kind) {
    case RecomputeKind::None: return "None";
    case RecomputeKind::Full: return "FullAC.Config()";
    case RecomputeKind::Selective: return "SelectiveAC.Config()";
  }
  return "None";
}

std::string imports(const Plan& plan, const Values& v) {
  std::string out;
  const Precision precision = plan.problem.training.precision;
  if (precision == Precision::Fp8Tensorwise)
    out += "from torchtitan.components.quantization import Float8LinearConverter\n";
  if (precision == Precision::Mxfp8) out += "from torchtitan.components.quantization import MXFP8LinearConverter\n";
  if (v.compile) out += "from torchtitan.config import CompileConfig\n";
  if (plan.best.layout.recompute.kind != RecomputeKind::None)
    out += fmt::format("from torchtitan.distributed.activation_checkpoint import {}\n",
                       plan.best.layout.recompute.kind == RecomputeKind::Full ? "FullAC" : "SelectiveAC");
  out += fmt::format("from torchtitan.models.{0} import model_registry\n", v.flavor->family);
  out += fmt::format("from torchtitan.models.{}.config_registry import {}\n", v.flavor->family, v.flavor->recipe);
  return out + "from torchtitan.trainer import Trainer\n";
}

/// Float8's converter takes the layers that it leaves alone, MXFP8's those that it converts.
std::string spared_layers(const Plan& plan) {
  if (!plan.problem.training.bf16_layers.any()) return "";
  const bool filters = plan.problem.training.precision == Precision::Fp8Tensorwise;
  return fmt::format(", {}={}", filters ? "filter_fqns" : "fqns", quoted(layers_of(plan, filters)));
}

std::string model_line(const Plan& plan, const Values& v) {
  std::string arguments = fmt::format("\"{}\"", v.flavor->flavor);
  if (plan.best.layout.cp > 1) arguments += ", attn_backend=\"flex\"";
  const Precision precision = plan.problem.training.precision;
  if (precision == Precision::Fp8Tensorwise || precision == Precision::Mxfp8)
    arguments += fmt::format(", converters=[{}.Config(model_compile_enabled={}{})]",
                             precision == Precision::Mxfp8 ? "MXFP8LinearConverter" : "Float8LinearConverter",
                             v.compile ? "True" : "False", spared_layers(plan));
  return fmt::format("    config.model_spec = model_registry({})\n", arguments);
}

std::string recipe_parallelism(const Layout& l, const Values& v) {
  std::string out = "    p = config.parallelism\n";
  const auto set = [&](std::string_view key, const auto& value) { out += fmt::format("    p.{} = {}\n", key, value); };
  set("data_parallel_replicate_degree", v.replicate);
  set("data_parallel_shard_degree", v.shard);
  set("fsdp_reshard_after_forward", fmt::format("\"{}\"", v.reshard));
  set("tensor_parallel_degree", l.tp);
  set("context_parallel_degree", l.cp);
  set("pipeline_parallel_degree", l.pp);
  set("expert_parallel_degree", l.ep);
  if (l.pp == 1) return out;
  set("pipeline_parallel_schedule", fmt::format("\"{}\"", v.schedule));
  set("num_pp_microbatches", v.micro_batches);
  if (v.split) {
    set("pipeline_parallel_first_stage_less_layers", v.split->first);
    set("pipeline_parallel_last_stage_less_layers", v.split->last);
    set("pipeline_parallel_layers_per_stage", v.split->per_stage);
  } else {
    set("module_fqns_per_model_part", parts(v, "lm_head", "    "));
  }
  return out;
}

std::string recipe(const Plan& plan, const EmitOptions& options, const Values& v, const std::string& name) {
  const Layout& l = plan.best.layout;
  const Training& training = plan.problem.training;
  std::string out =
      fmt::format("# {}\n# For torchtitan's main branch: torchrun ... -m torchtitan.train --module {} --config {}\n",
                  plan_line(plan), name, name);
  out += imports(plan, v) + fmt::format("\n\ndef {}() -> Trainer.Config:\n    config = {}()\n", name, v.flavor->recipe);
  out += model_line(plan, v);
  out += fmt::format(
      "    config.hf_assets_path = {}\n",
      string_quoted(options.tokenizer.empty() ? fmt::format("./assets/hf/{}", v.flavor->assets) : options.tokenizer));
  out += recipe_parallelism(l, v);
  out += fmt::format("    config.training.max_context_length = {}\n", training.seq);
  out +=
      fmt::format("    config.training.num_tokens_per_microbatch_per_dp_rank = {} * {}\n", l.micro_batch, training.seq);
  out += fmt::format("    config.training.num_tokens_per_train_step = {} * {}\n", training.global_batch, training.seq);
  out += fmt::format("    config.training.mixed_precision_param = \"{}\"\n",
                     training.precision == Precision::Fp32 ? "float32" : "bfloat16");
  out +=
      fmt::format("    config.training.enable_cpu_offload = {}\n", training.offload.optimizer > 0 ? "True" : "False");
  // CUDA graphs run neither a pipeline nor the experts' exchange.
  if (l.pp > 1 || l.ep > 1) out += "    config.training.disable_cuda_graphs = True\n";
  out += fmt::format("    config.activation_checkpoint = {}\n", checkpointing(l.recompute));
  if (v.compile) out += "    config.compile = CompileConfig(enable=True, components=[\"model\"])\n";
  if (const std::string folder = checkpoint_folder(plan, options); !folder.empty()) {
    out += fmt::format(
        "    config.checkpoint.enable = True\n    config.checkpoint.folder = {}\n    config.checkpoint.interval = {}\n",
        string_quoted(folder), upkeep_of(plan, options).every);
    if (options.site) out += "    config.checkpoint.async_mode = \"async\"\n";
  }
  return out + "    config.__post_init__()\n    return config\n";
}

}  // namespace

Result<std::vector<LaunchFile>> write_torchtitan_main(const Plan& plan, const EmitOptions& options) {
  constexpr std::string_view kFormat = "torchtitan-main";
  const Result<Values> v = checked(plan, kFormat);
  if (!v) return tl::unexpected(v.error());
  const Layout& l = plan.best.layout;
  if (v->flavor->recipe.empty())
    return cannot(kFormat, fmt::format("has no {} any more", v->flavor->family), "write `torchtitan` for v0.2.2");
  if (plan.problem.training.seq > v->flavor->longest)
    return cannot(kFormat, fmt::format("has positions for {} tokens in {}", v->flavor->longest, v->flavor->family),
                  fmt::format("add `--seq {}`", v->flavor->longest));
  if (l.cp > 1 && l.cp_kind != CpKind::AllGather)
    return cannot(kFormat, "gathers keys and values across context ranks", "add `--layout cp-kind=all-gather`");
  if (l.ep > 1 && l.etp > 1) return cannot(kFormat, "splits no expert under ep: etp 1", "add `--layout etp1`");
  const std::string name = identifier(job_name(plan, options));
  LaunchCommand command;
  command.title = plan_line(plan);
  command.environment = environment();
  command.environment.emplace_back("PYTHONPATH", ".");
  command.program = command.plain_program = "-m torchtitan.train";
  command.groups = {{"TRAIN_ARGS", {fmt::format("--module {}", name), fmt::format("--config {}", name)}}};
  command.stem = "torchtitan";
  Result<std::vector<LaunchFile>> files = write_launcher(command, plan, options);
  if (!files) return files;
  files->insert(files->begin(), LaunchFile{name + ".py", recipe(plan, options, *v, name), false});
  return files;
}

}  // namespace plan
