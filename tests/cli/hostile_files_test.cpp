// Files that nobody means well with: each ends soon, in little memory, with one clear error on stderr and nothing on
// stdout.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "hostile.hpp"
#include "presets/yaml.hpp"

namespace fs = std::filesystem;
using namespace plan::hostile;
using plan::TemporaryFolder;

TEST_CASE("a file larger than any of ours is not read to its end") {
  const TemporaryFolder folder;
  for (const char* name : {"huge.yaml", "huge.json"}) {
    CAPTURE(name);
    const std::string file = folder.write(name, "");
    fs::resize_file(file, std::uintmax_t{1} << 30);  // one line of zeros that takes no room on the disk
    check_refused_by_all(file);
  }
  check_refused_by_all("/dev/zero");
}

TEST_CASE("a line without an end is read up to the limit, and no further") {
  const TemporaryFolder folder;
  const std::string line(plan::yaml::kMostBytes - 100, 'x');
  check_refused(run({"--gpus", "8", "--model", folder.write("long.yaml", "preset: " + line)}));
  check_refused(run({"check", "--budget", folder.write("long.yaml", "budget: [" + line)}));
  check_refused(run({"validate", folder.write("long.csv", "a,b," + line)}));
  check_refused(run({"compare", folder.write("long.json", "{\"schema\": \"" + line), "best"}));
}

TEST_CASE("bombs and pits are refused") {
  const TemporaryFolder folder;
  std::string aliases = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 60; ++i)
    aliases += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + ", *a" +
               std::to_string(i - 1) + "]\n";
  const std::size_t deep = 100'000;
  for (const std::string& text :
       {aliases, repeated("[", deep), repeated("{", deep), repeated("{\"a\":", deep), repeated("{\"a\":[", deep),
        repeated("- ", deep), repeated("? ", deep), "a: " + repeated("[", deep), "a = " + repeated("[", deep)}) {
    CAPTURE(text.substr(0, 40));
    check_refused_by_all(folder.write("deep.yaml", text));
    check_refused(run({"--gpus", "8", "--model", folder.write("config.json", text)}));
    check_refused(run({"estimate", "--from", folder.write("train.toml", text)}));
  }
}

TEST_CASE("scripts that never end are left where they are") {
  const TemporaryFolder folder;
  const std::string list = repeated(" a", 1000), big(1 << 20, 'x');
  const std::string head = "#!/bin/bash\n", tail = "\ntorchrun pretrain_gpt.py\n";
  for (const std::string& body : std::vector<std::string>{
           "for a in" + list + "; do for b in" + list + "; do for c in" + list + "; do X=1; done; done; done",
           "A=(x)\n" + repeated("A=(\"${A[@]}\" \"${A[@]}\")\n", 60), "X=" + big + repeated("\nrun $X", 5000),
           "export X=" + big + repeated("\nrun a", 5000), "X=" + big + "\nY=${X//x/$X}",
           "X=" + big + "\nY=${X##*x*x*xy}", repeated("! ", 100'000) + "true",
           "if " + repeated("! ", 100'000) + "[ a ]; then b; fi", "if [ " + repeated("! ", 100'000) + "a ]; then b; fi",
           "if [ a" + repeated(" || a", 100'000) + " ]; then b; fi", repeated("then ", 100'000) + "x",
           repeated("while a; do\n", 100'000), "f() { g; g; g; }; g() { f; f; f; }; f",
           "f() { " + big + "; }\n" + repeated("f() { " + list + "; }\n", 2000), repeated("eval ", 10'000) + "x",
           "X=$((" + repeated("(", 100'000) + "1))"}) {
    CAPTURE(body.substr(0, 60));
    const Outcome outcome = run({"estimate", "--model", "8b", "--from", folder.write("train.sh", head + body + tail)});
    CAPTURE(outcome.err.substr(0, 400));
    CHECK(outcome.status >= 0);
    CHECK(outcome.status <= 2);
    CHECK(outcome.err.find("internal") == std::string::npos);
  }
}

TEST_CASE("a file of 300,000 keys that nobody knows is one error") {
  const TemporaryFolder folder;
  const auto keys = [](std::string_view before, std::string_view after) {
    std::string text;
    for (int i = 0; i < 300'000; ++i) text.append(before).append(std::to_string(i)).append(after);
    return text;
  };
  const std::string head = "#!/bin/bash\ntorchrun --nnodes 1 --nproc-per-node 8 ";
  const std::pair<std::string, std::string> files[] = {
      {"train.toml", "[parallelism]\ntensor_parallel_degree = 8\n[training]\n" + keys("key_", " = 1\n")},
      {"train.sh", head + "pretrain_gpt.py" + keys(" --key-", " 1") + "\n"},
      {"swift.sh", "#!/bin/bash\nmegatron sft --tensor_model_parallel_size 2" + keys(" --key_", " 1") + "\n"},
      {"config.py", "import torchtitan\ndef llama():\n    config = llama3_8b()\n    p = config.parallelism\n" +
                        keys("    p.key_", " = 1\n")},
      {"ds_config.json", "{\"train_batch_size\": 8" + keys(", \"key_", "\": 1") + "}"},
      {"accelerate.yaml",
       "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 8\n" + keys("key_", ": 1\n")}};
  for (const auto& file : files) {
    CAPTURE(file.first);
    const std::string path = folder.write(file.first, file.second);
    const Outcome outcome = run({"estimate", "--model", "8b", "--gpus", "8", "--from", path});
    check_refused(outcome);
    // What one may have, or a shell reads for one.
    CHECK(outcome.err.find(file.first.ends_with(".sh") ? "too much to be followed" : "4096") != std::string::npos);
  }
}

TEST_CASE("what is no file, cannot be read or is gone says so") {
  const TemporaryFolder folder;
  fs::create_symlink(folder.at("loop-b"), folder.at("loop-a"));
  fs::create_symlink(folder.at("loop-a"), folder.at("loop-b"));
  fs::create_symlink(folder.at("gone"), folder.at("dangling.yaml"));
  fs::create_directory(folder.at("folder.yaml"));
  for (const char* name : {"loop-a", "dangling.yaml", "folder.yaml", "never.yaml", "loop-a/model.yaml"}) {
    CAPTURE(name);
    check_refused_by_all(folder.at(name));
  }
  CHECK(plan::yaml::read_text(folder.at("loop-a")).error().front().message.find("Too many levels") !=
        std::string::npos);
  check_refused_by_all("/proc/self/mem");  // opens, and fails to be read

  const std::string secret = folder.write("secret.yaml", "preset: model/1\n");
  fs::permissions(secret, fs::perms::none);
  const pid_t child = ::fork();
  if (child == 0) {  // as somebody else, where we are root, whom no permission stops
    fs::permissions(fs::path(secret).parent_path(), fs::perms::all);
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(9);
    const auto text = plan::yaml::read_text(secret);
    ::_exit(!text && text.error().front().message.find("cannot be opened") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}
