// Reading runs nothing: every place of every tool's file where a word could be taken for a command, a tag, a module or
// a path to be opened and run gets one that would leave a mark.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <filesystem>

#include "samples.hpp"

namespace plan {

using namespace launching;

namespace {

/// Words that would make `mark` if a shell, YAML, Python or hydra ran them.
std::vector<std::string> poisons(const std::string& mark) {
  return {"$(touch " + mark + ")",
          "`touch " + mark + "`",
          "$((a[$(touch " + mark + ")]))",
          "${x:=$(touch " + mark + ")}",
          "<(touch " + mark + ")",
          "; touch " + mark + " #",
          "!!python/object/apply:os.system [\"touch " + mark + "\"]",
          "${eval:\"__import__('os').system('touch " + mark + "')\"}",
          "{{ cycler.__init__.__globals__.os.system('touch " + mark + "') }}",
          "__import__('os').system('touch " + mark + "')"};
}

}  // namespace

TEST_CASE("no word of any tool's file is run, wherever it stands") {
  int read = 0;
  for (const Sample& sample : kSamples) {
    CAPTURE(std::string(sample.name));
    const std::vector<std::string> lines = lines_of(sample.text);
    const Files files;
    const std::string mark = files.folder.at("mark");
    for (const std::string& poison : poisons(mark))
      for (std::size_t i = 0; i < lines.size(); ++i)
        for (const bool whole : {false, true}) {
          std::string text;
          for (std::size_t k = 0; k < lines.size(); ++k) {
            std::string line = lines[k];
            // At the end of the line's value, or a line of its own.
            const std::size_t end = line.find_last_not_of(" \\,\"}");
            if (k == i && !whole) line = end == std::string::npos ? poison : line.insert(end + 1, poison);
            text += line + "\n" + (k == i && whole ? poison + "\n" : "");
          }
          (void)files.read(sample.name, text, {.model = {}, .gpus = sample.gpus, .gpus_per_node = 8, .arguments = {}});
          ++read;
        }
    CHECK_FALSE(std::filesystem::exists(mark));
  }
  CHECK(read > 2000);
}

TEST_CASE("what scripts read, source, call and decide by is not run either") {
  const Files files;
  const std::string mark = files.folder.at("mark");
  const std::string touch = "touch " + mark, run = "$(" + touch + ")";
  files.folder.write("other.sh", "#!/bin/bash\n" + touch + "\nTP=" + run + "\nexport PP=`" + touch + "`\n");
  files.folder.write("train.py", "import os\nos.system('" + touch + "')\n");
  const std::string
      start = "#!/bin/bash\n",
      job =
          "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
          "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 --bf16 "
          "--eval-interval 10 --vocab-size 32000 ";
  const std::string scripts[] = {
      "X=" + run + "\nY=`" + touch + "`\neval \"" + touch + "\"\nsource <(" + touch + ")\n" + job,
      "source other.sh\n. ./other.sh\n" + job + "--tensor-model-parallel-size $TP\n",
      "bash other.sh 1 2\n./other.sh\nsh -c '" + touch + "; " + job + "'\n",
      "while getopts \"t:p:\" o; do case $o in t) TP=" + run + " ;; *) " + touch + " ;; esac; done\n" + job,
      "while [[ $# -gt 0 ]]; do case \"$1\" in --tp) " + touch + "; shift 2 ;; *) shift ;; esac; done\n" + job,
      "cat > c.yaml <<END\na: " + run + "\n`" + touch + "`\nEND\npython train.py c.yaml\n" + job,
      "read -r -d '' CMD <<END\n" + touch + "\nEND\neval \"$CMD\"\n" + job,
      "bash <<'END'\n" + touch + "\nEND\npython - <<END\nimport os; os.system('" + touch + "')\nEND\n" + job,
      "if " + touch + "; then TP=2; fi\n[[ -n " + run + " ]] && " + touch + "\n" + job,
      "for i in " + run + "; do " + touch + "; done\nf() { " + touch + "; }\nf\ntrap '" + touch + "' EXIT\n" + job,
      "A=(" + run + ")\nPS4='" + run + "'\nset -x\nPROMPT_COMMAND='" + touch + "'\n" + job + "${A[@]} ${A[$(" + touch +
          ")]} $[1+" + run + "]\n",
      "python train.py $(python train.py)\nxargs -I{} bash -c '" + touch + "' < other.sh\n" + job + "--lr " + run +
          "\n",
      "srun bash -c \"" + touch + "; " + job + "\"\nssh node0 '" + touch + "'\nfind . -exec " + touch + " \\;\n"};
  for (const std::string& script : scripts) {
    CAPTURE(script);
    (void)files.read("run.sh", start + script, on(8));
    CHECK_FALSE(std::filesystem::exists(mark));
  }
}

TEST_CASE("strategies, saved configurations and records of captured jobs are data") {
  const Files files;
  const std::string mark = files.folder.at("mark");
  for (const std::string& poison : poisons(mark)) {
    std::string quoted;
    for (const char c : poison) quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    const std::pair<const char*, std::string> texts[] = {
        {"galvatron.json",
         "{\"pp_deg\": 1, \"tp_sizes_enc\": \"1,1\", \"tp_consecutive_flags\": \"1,1\", \"dp_types_enc\": \"" + quoted +
             "\", \"global_bsz\": 8, \"chunks\": 1, \"pp_division\": \"2\", \"checkpoint\": \"" + quoted + "\"}"},
        {"config.json", "{\"_CLASS_\": \"" + quoted + "\", \"model\": {\"_CLASS_\": \"olmo_core.nn." + quoted +
                            "\", \"d_model\": 64}, \"train_module\": {\"rank_microbatch_size\": \"" + quoted + "\"}}"},
        {"job.json", "{\"schema\": \"plan-capture/1\", \"command\": [\"bash\", \"" + quoted +
                         "\"], \"status\": 0, \"started\": [{\"words\": [\"torchrun\", \"" + quoted +
                         "\"], \"lines\": [1, 1], \"environment\": {\"NNODES\": \"" + quoted +
                         "\"}}], \"files\": [], \"notes\": []}"},
        {"recipe.py", "import torchtitan\nimport os\nos.system('touch " + mark +
                          "')\ndef f():\n  config.x = " + poison + "\n  return config\n"},
        {"foundry.yaml", "max_duration: 1ba\nglobal_train_batch_size: 8\ndevice_train_microbatch_size: " + poison +
                             "\ntrain_loader:\n  name: ${" + poison + "}\nmodel:\n  d_model: " + poison + "\n"}};
    for (const auto& [name, text] : texts) (void)files.read(name, text, on(8));
    CHECK_FALSE(std::filesystem::exists(mark));
  }
}

}  // namespace plan
