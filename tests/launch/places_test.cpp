// One number of a launch file edited, in every tool's words: the job changes, or is refused, or the number is named as
// not used, and what changed has its place on the line of the edit. A change's cause in `plan check` is that place.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <regex>

#include "cli/launch/launch.hpp"
#include "samples.hpp"

namespace plan {

using namespace launching;

namespace {

/// The places of values that differ between two jobs, of the second. A model has many numbers and one place, that of
/// its first; so have GPUs, that of the nodes.
std::vector<std::string> changed_places(const LaunchJob& before, const LaunchJob& after) {
  std::vector<std::string> out;
  for (const Input& now : after.inputs)
    for (const Input& then : before.inputs)
      if (then.key == now.key && then.value != now.value && now.origin == Origin::File && now.key != "model")
        out.push_back(now.where);
  return out;
}

}  // namespace

TEST_CASE("an edited number changes the job, is refused or is named, and its line is the place of what changed") {
  static const std::regex kNumber("(^|[^\\w.$\"/-])([1-9][0-9]*)(?![\\w./-])");
  int placed = 0;
  for (const Sample& sample : kSamples) {
    CAPTURE(std::string(sample.name));
    const LaunchContext context{.model = {}, .gpus = sample.gpus, .gpus_per_node = 8, .arguments = {}};
    const LaunchJob before = job_of(sample.name, sample.text, context);
    const std::vector<std::string> lines = lines_of(sample.text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::smatch found;
      const auto has = [&](const char* word) { return lines[i].find(word) != std::string::npos; };
      if (lines[i].starts_with("#") || has("CONNECTIONS") || !std::regex_search(lines[i], found, kNumber)) continue;
      // What multiplies a number that has its place elsewhere.
      const bool each = has("NPROC_PER_NODE") || has("nproc") || has("gpus_per_node") || has("num_nodes: 1") ||
                        has("response_length") || has("rollout.n");
      for (const int factor : {2, 4}) {
        std::string text;
        for (std::size_t k = 0; k < lines.size(); ++k)
          text += (k != i ? lines[k]
                          : found.prefix().str() + found[1].str() + std::to_string(std::stoll(found[2]) * factor) +
                                found.suffix().str()) +
                  "\n";
        CAPTURE(lines[i]);
        const Files files;
        const Result<LaunchJob> after = files.read(sample.name, text, context);
        if (!after) {
          const std::string& error = after.error().front().message;
          CHECK_MESSAGE(error.find("internal") == std::string::npos, error);
          continue;
        }
        CHECK(said(*after) != said(before));
        const std::vector<std::string> places = changed_places(before, *after);
        if (places.empty() || each) continue;
        const std::string line = ":" + std::to_string(i + 1);
        CHECK_MESSAGE(
            std::any_of(places.begin(), places.end(), [&](const std::string& where) { return where.ends_with(line); }),
            fmt::format("{} of {} places, first {}", line, places.size(), places.front()));
        ++placed;
      }
    }
  }
  CHECK(placed >= 100);
}

TEST_CASE("a script that only shows or calls what a reader knows is no file of that reader") {
  for (const Sample& sample : kSamples) {
    CAPTURE(std::string(sample.name));
    std::string shown = "#!/bin/bash\n";
    for (const std::string& line : lines_of(sample.text)) shown += "# " + line + "\n";
    const Files files;
    files.folder.write("called.sh", "#!/bin/bash\n: <<'END'\n" + std::string(sample.text) + "\nEND\n");
    if (std::string(sample.name).ends_with(".sh")) files.folder.write("called.sh", sample.text);
    for (const std::string& script :
         {shown + "echo \"Run dir: ${X}\"\n", std::string("#!/bin/bash\necho \"Run dir: ${X}\"\nbash called.sh\n")}) {
      const Result<LaunchJob> job = files.read("show.sh", script);
      if (job) continue;
      for (const Error& error : job.error())
        CHECK_MESSAGE((error.code != "yaml_syntax" && error.code != "bad_toml" && error.code != "toml_syntax" &&
                       error.code != "json_syntax" && error.code != "not_a_map"),
                      error.message);
    }
  }
}

TEST_CASE("a script that calls the Trainer's is read as that one") {
  const Files files;
  files.folder.write("train.sh",
                     "#!/bin/bash\ntorchrun --nnodes 1 --nproc_per_node 8 sft.py --model_name_or_path Qwen/Qwen3-8B "
                     "--per_device_train_batch_size $MBS --max_seq_length 4096 --bf16 true --output_dir /tmp/o\n");
  const Result<LaunchJob> job = files.read(
      "run.sh",
      "#!/bin/bash\necho \"Run dir: ${X}\"\ndocker exec box bash -lc \"cd /x && MBS=2 bash train.sh\" | tee log\n");
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  CHECK(job->gpus == 8);
  CHECK(job->fixed.micro_batch == 2);
}

TEST_CASE("ranks that a fork of Megatron-LM takes as a flag are the job's GPUs") {
  const std::string script = replaced(kShell, "torchrun --nnodes $NODES --nproc-per-node 8 ", "python -u ");
  CHECK(job_of("run.sh", replaced(script, "--bf16", "--bf16 --rank $R --world-size 16 --dist-url tcp://a:1")).gpus ==
        16);
  CHECK(job_of("run.sh", replaced(script, "--bf16", "--bf16 --rank $R --world-size $N")).gpus == 0);
}

}  // namespace plan
