// Every format with every launcher: what `plan emit` writes is read back, and written again to the same bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "check_files.hpp"
#include "cli/launch/launch.hpp"
#include "contents.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    out[entry.path().filename().string()] = contents_of(entry.path());
  }
  return out;
}

/// Dialects whose files are overrides of a recipe that names the model.
bool leaves_model_open(const std::string& format) {
  return format == "megatron-bridge" || format == "verl" || format == "nemo-rl" || format == "ms-swift" ||
         format == "llama-factory" || format == "galvatron";
}

struct RoundTripped {
  const char *model, *gpus, *layout;
};

/// Emits, reads, emits. False if the framework cannot hold the plan.
bool round_trip(const std::string& format, const std::string& launcher, const RoundTripped& asked) {
  const Folder folder;
  Ran first = run({"emit", format, "-o", "a", "--launcher", launcher, "--model", asked.model, "--gpus", asked.gpus,
                   "--layout", asked.layout});
  const bool own = first.err.find("starts its own processes") != std::string::npos;
  if (own)
    first = run({"emit", format, "-o", "a", "--model", asked.model, "--gpus", asked.gpus, "--layout", asked.layout});
  if (first.status != 0) {
    // Status 1: the framework has no such layout, or it does not fit; else a dialect that lacks a key.
    CHECK_MESSAGE(
        (first.status == 1 || first.err.find("no layout uses all") != std::string::npos ||
         first.err.find("has no key for") != std::string::npos ||
         first.err.find("is started by Slurm here") != std::string::npos || first.err.find("error: galvatron ") == 0 ||
         first.err.find("trains no model from nothing") != std::string::npos),
        first.err);
    return false;
  }
  std::vector<std::string> words = {"emit", format, "-o", "b"};
  if (!own) words.insert(words.end(), {"--launcher", launcher});
  if (leaves_model_open(format)) words.insert(words.end(), {"--model", asked.model, "--gpus", asked.gpus});
  for (const auto& [name, text] : files_in("a")) words.insert(words.end(), {"--from", "a/" + name});
  const Ran second = run(words);
  CHECK_MESSAGE(second.status == 0, second.err);
  if (second.status == 0) CHECK(files_in("a") == files_in("b"));
  return true;
}

}  // namespace

TEST_CASE("every format, every launcher: emit, read, emit gives the same files") {
  // A layout for frameworks without pipelines and one for those with them, for 70B on 64 and 405B on 512 GPUs.
  const RoundTripped kAsked[] = {{"70b", "64", "tp8,cp1,pp1,mb1,recompute=full"},
                                 {"70b", "64", "tp4,cp1,pp4,vp1,mb1,zero1"},
                                 {"405b", "512", "tp8,cp1,pp1,mb1,recompute=full"},
                                 {"405b", "512", "tp8,cp1,pp8,vp1,mb1,zero1,recompute=full"}};
  int written = 0;
  for (const std::string& format : emit_words()) {
    int of_format = 0;
    for (const RoundTripped& asked : kAsked)
      for (const std::string& launcher : launcher_words()) {
        CAPTURE(format);
        CAPTURE(launcher);
        CAPTURE(std::string(asked.model));
        CAPTURE(std::string(asked.layout));
        of_format += round_trip(format, launcher, asked) ? 1 : 0;
      }
    const int least = format == "maxtext"                              ? 2
                      : format == "torchtune" || format == "galvatron" ? 0
                                                                       : static_cast<int>(launcher_words().size());
    CHECK_MESSAGE(of_format >= least, format);
    written += of_format;
  }
  MESSAGE(written << " sets of files");
}

TEST_CASE("where a dialect lacks a key, the word is named without which it would be written") {
  const std::vector<std::vector<std::string>> kWords = {{"--overlap", "none"},
                                                        {"--overlap", "grads+params+tp+p2p"},
                                                        {"--cuda-graphs", "full"},
                                                        {"--cuda-graphs", "attn+mlp"},
                                                        {"--precision", "fp8"},
                                                        {"--offload", "optimizer"},
                                                        {"--offload", "core_attn"},
                                                        {"--optimizer", "muon"},
                                                        {"--state-formats", "moments=bf16"},
                                                        {"--bf16-layers", "1+1"}};
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  int told = 0;
  for (const std::string& format : emit_words())
    for (const std::vector<std::string>& word : kWords) {
      const Folder folder;
      std::vector<std::string> words = {"emit",      format,   "-o", "a",        "--model",
                                        "llama3-8b", "--gpus", "64", "--layout", "tp2,pp2,vp2,zero1"};
      if (run(words).status != 0) continue;  // without the word it has all its keys
      words.insert(words.end(), word.begin(), word.end());
      words[3] = "b";
      std::string text = run(words).err;
      std::replace(text.begin(), text.end(), '\n', ' ');
      text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
                 text.end());
      CAPTURE(format);
      CAPTURE(text);
      const int lacking = count(text, "has no key for");
      CHECK(count(text, "otherwise with `" + word[0] + "`") == lacking);
      told += lacking;
    }
  CHECK(told > 10);
}
