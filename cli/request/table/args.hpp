#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plan {

/// What was typed, unread: which words followed which flag. resolve.hpp turns it into what it means.
struct Args {
  using Text = std::optional<std::string>;

  std::string verb{};                ///< empty: plan
  std::vector<std::string> words{};  ///< what follows the verb

  Text model, gpus, slice, gpu, cluster, profile, seq, global_batch, task, lora_rank, offload, tokens;
  Text host_memory;
  Text precision, bf16_layers, optimizer, framework, layout;
  Text state_formats, cuda_graphs, overlap, dispatcher, imbalance, diloco;
  Text objective, top, stage, price, headroom;
  Text spares, gpu_mtbf, storage, restart, lose;
  Text rows;
  Text baseline, risk;
  Text format, output, color, threads, completion, list;
  Text launcher, data_path, tokenizer, checkpoint_dir, image, site, megatron_version, release;
  std::vector<std::string> from{};
  Text diff, resume, ranks, op, append, tp, dtypes, nccl_lib, cudnn_lib, cublas_lib, rendezvous, timeout;
  std::vector<std::string> set{}, import_files{}, budget{}, log{}, trace{}, smi{}, snapshot{}, measured{};
  Text duration, every;
  bool follow = false;
  bool warn_only = false, require_profile = false;
  bool dry_run = false, standard = false, thorough = false, quick = false, transport_check = false, look = false,
       allow_busy = false, allow_different = false;
  Text inter_bandwidth, intra_bandwidth, memory, deadline;
  bool timeline = false, all = false, advice = false;
  Text arguments;
  bool accept_risk = false, force = false, strict = false, pareto = false, per_stage = false, names = false,
       per_layer = false, rough = false, json = false, ascii = false, quiet = false;
  bool resolve = false;
  bool help = false, short_help = false, version = false;
};

}  // namespace plan
