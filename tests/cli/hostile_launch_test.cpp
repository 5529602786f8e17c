// Every writer's scripts, run under stand-ins for launchers and trainings: a hostile word of the command line arrives
// as one word, byte for byte, and runs nothing.
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "check_files.hpp"
#include "cli/launch/launch.hpp"
#include "cli/launch/start/launcher.hpp"
#include "contents.hpp"

using namespace plan;
using namespace plan::checks;
namespace fs = std::filesystem;

namespace {

const char* const kPrograms[] = {"torchrun", "python3", "python",   "accelerate", "deepspeed",       "tune",
                                 "axolotl",  "uv",      "megatron", "swift",      "llamafactory-cli"};

/// What the stand-ins were called with, one list of words after the other.
std::vector<std::string> recorded() {
  std::vector<std::string> words;
  std::istringstream text(contents_of("record"));
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return words;
}

void program(const std::string& name, const std::string& after) {
  fs::create_directories("bin");
  std::ofstream("bin/" + name) << "#!/bin/bash\nprintf '%s\\0' \"$(basename \"$0\")\" \"$@\" >> \"$RECORD\"\n" << after;
  fs::permissions("bin/" + name, fs::perms::owner_all);
}

/// Words of all that a script starts; empty if it does not run to its end.
std::vector<std::string> started_by(const std::string& script) {
  fs::remove("record");
  const std::string here = fs::current_path().string();
  const std::string command = "cd '" + here + "/run' && export RECORD='" + here + "/record' PATH='" + here +
                              "/bin':\"$PATH\" SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n SLURM_NNODES=2 SLURM_NODEID=0 "
                              "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=16 MEGATRON_PATH=/m BRIDGE_PATH=/b "
                              "SKYPILOT_NODE_IPS=a SKYPILOT_NUM_NODES=2 SKYPILOT_NODE_RANK=0 "
                              "SKYPILOT_NUM_GPUS_PER_NODE=8; exec bash '" +
                              script + "' > /dev/null 2>&1";
  const int status = std::system(command.c_str());
  CHECK_MESSAGE((WIFEXITED(status) && WEXITSTATUS(status) == 0), script);
  return fs::exists("record") ? recorded() : std::vector<std::string>{};
}

/// The scripts of `run/`; that of SkyPilot's file as one of its own.
std::vector<std::string> scripts() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator("run")) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".sh") || name.ends_with(".sbatch")) out.push_back(name);
    if (name != "sky.yaml") continue;
    std::istringstream text(contents_of(entry.path()));
    std::ofstream script("run/sky.script");
    bool inside = false;  // the literal block of `run:`, two blanks in
    for (std::string line; std::getline(text, line);) {
      if (inside) script << (line.size() > 2 ? line.substr(2) : "") << "\n";
      inside = inside || line == "run: |";
    }
    out.emplace_back("sky.script");
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string with_word(std::string text, const std::string& word) {
  for (std::size_t at = text.find("PLAIN"); at != std::string::npos; at = text.find("PLAIN", at + word.size()))
    text.replace(at, 5, word);
  return text;
}

struct Asked {
  std::string format, launcher, flag;
  std::vector<std::string> more;
};

Ran emit(const Asked& asked, const std::string& word) {
  fs::remove_all("run");
  std::vector<std::string> words = {"emit", asked.format, "-o", "run", "--force", "--gpus", "16"};
  if (!asked.launcher.empty()) words.insert(words.end(), {"--launcher", asked.launcher});
  words.insert(words.end(), asked.more.begin(), asked.more.end());
  if (asked.flag == "--model") {
    fs::create_directories("models/" + word);
    std::ofstream("models/" + word + "/config.json")
        << "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32,"
           " \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 128256}";
    words.insert(words.end(), {"--model", "models/" + word + "/config.json"});
  } else {
    words.insert(words.end(), {"--model", "llama3-8b", asked.flag + "=" + word});
  }
  return run(words);
}

/// Words that hold the given one; -1 where the tool has no such option.
int held(const Asked& asked, const std::string& word) {
  const Ran plain = emit(asked, "PLAIN");
  if (plain.status > 1 || !fs::exists("run")) return -1;
  std::vector<std::vector<std::string>> before;
  for (const std::string& script : scripts()) before.push_back(started_by(script));
  const Ran nasty = emit(asked, word);
  REQUIRE_MESSAGE(nasty.status <= 1, nasty.err);
  int count = 0;
  const std::vector<std::string> now = scripts();  // a model names its files, too
  REQUIRE(now.size() == before.size());
  for (std::size_t k = 0; k < now.size(); ++k) {
    CAPTURE(now[k]);
    const std::vector<std::string>&were = before[k], are = started_by(now[k]);
    REQUIRE(are.size() == were.size());
    for (std::size_t i = 0; i < were.size(); ++i) {
      if (were[i].find("plan-plain") != std::string::npos || were[i].find("plan_plain") != std::string::npos)
        continue;  // the name of such a file or recipe
      // An override's value is read once more by the tool: a quoted string.
      const bool same = are[i] == with_word(were[i], word) || are[i] == with_word(were[i], string_quoted(word)) ||
                        string_unquoted(are[i].substr(are[i].find('=') + 1)) ==
                            string_unquoted(with_word(were[i], word).substr(were[i].find('=') + 1));
      CHECK_MESSAGE(same, are[i] << " for " << were[i]);
      count += were[i].find("PLAIN") != std::string::npos ? 1 : 0;
    }
  }
  for (const auto& entry : fs::recursive_directory_iterator(".")) CHECK(entry.path().filename() != "pwned");
  return count;
}

}  // namespace

TEST_CASE("hostile words reach what every writer's scripts start, byte for byte") {
  const Folder folder;
  for (const char* name : kPrograms) program(name, "");
  program("srun", "while [[ $1 == --* ]]; do shift; done\nexec \"$@\"\n");
  std::ofstream("bin/scontrol") << "#!/bin/bash\necho node0\n";
  fs::permissions("bin/scontrol", fs::perms::owner_all);
  const std::string kNasty[] = {
      "it's \"$(touch pwned)\" `touch pwned`; touch pwned # \\ {{ y }} %{x} *?[a-z] ${HOME} &|>",
      "\xc3\xa9 'a' -- $'x' !!python/name", "=x: [&b, *b]"};
  std::map<std::string, int> words_held, written;
  for (const std::string& format : emit_words())
    for (const std::string launcher : {"", "slurm", "torchrun", "skypilot"})
      for (const std::string flag : {"--data-path", "--tokenizer", "--checkpoint-dir", "--image", "--model"}) {
        Asked asked{format, launcher, flag, {"--layout", format == "maxtext" ? "tp8" : "tp1,pp1,mb1"}};
        if (format == "torchtune") asked.more = {"--layout", "tp1,mb1,zero3", "--task", "finetune"};
        CAPTURE(format);
        CAPTURE(launcher);
        CAPTURE(flag);
        for (const std::string& word : kNasty) {
          CAPTURE(word);
          const int count = held(asked, word);
          if (count < 0) break;
          ++written[format];
          words_held[format] += count;
        }
      }
  for (const std::string& format : emit_words()) {
    if (format == "galvatron" || format == "nemo-rl")
      continue;  // a file of data alone: tests/frameworks/quoting_test.cpp
    CHECK_MESSAGE(written[format] > 0, format);
    MESSAGE(format << ": " << written[format] << " sets of files, the word in " << words_held[format] << " words");
  }
}
