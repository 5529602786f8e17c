// Numbers and letters that are none, in flags, files and their names.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "hostile.hpp"

namespace fs = std::filesystem;
using namespace plan::hostile;
using plan::TemporaryFolder;

TEST_CASE("numbers out of every range are refused by their name") {
  const TemporaryFolder folder;
  const std::string preset = contents_of(PLAN_SOURCE_DIR "/presets/models/llama3-8b.yaml");
  REQUIRE(preset.find("hidden: 4096") != std::string::npos);
  for (const char* number : {"1e400", "-1e400", "nan", ".nan", "inf", ".inf", "99999999999999999999999999", "-0",
                             "1e-400", "0x1000", "4096.5", "", "\xff\xfe", "４０９６"}) {
    CAPTURE(number);
    std::string text = preset;
    text.replace(text.find("hidden: 4096"), 12, std::string("hidden: ") + number);
    check_refused(run({"--gpus", "8", "--model", folder.write("model.yaml", text)}));
  }
  for (const char* number :
       {"nan", "inf", "-inf", "1e999", "1e400T", "-1", "0", "", "1e308T", "\xff", "99999999999999999999"})
    for (const char* flag : {"--gpus", "--seq", "--global-batch", "--tokens", "--price", "--top", "--threads"}) {
      CAPTURE(flag);
      CAPTURE(number);
      const Outcome outcome = run({"--model", "8b", "--gpus", "8", flag, number});
      if (std::string(number) != "99999999999999999999" ||
          (std::string(flag) != "--tokens" && std::string(flag) != "--price"))
        check_refused(outcome);
    }
}

TEST_CASE("no name and no text that is not UTF-8 comes out as it went in") {
  const TemporaryFolder folder;
  for (const std::string name : {"bad\xff.sh", "\xc3\x28.yaml", "\xed\xa0\x80.json", "esc\x1b[31m.toml"}) {
    const std::string file = folder.write(name, std::string("\xff\xfe\0\x80 garbage", 12));
    for (const std::vector<std::string>& words : readers(file)) {
      const Outcome outcome = run(words);
      CAPTURE(words.front());
      CHECK(outcome.status == 2);
      CHECK(is_utf8(outcome.err));
      CHECK(outcome.err.find('\x1b') == std::string::npos);
    }
  }
  const std::string script =
      folder.write("run\xff.sh",
                   "#!/bin/bash\ntorchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 2 "
                   "--micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --bf16 --lr 1\xff\xfe --bad\xff x\n");
  for (const char* format : {"human", "json", "markdown", "csv", "html", "trace"}) {
    CAPTURE(format);
    const Outcome outcome = run({"estimate", "--model", "8b", "--from", script, "--format", format});
    CAPTURE(outcome.err);
    CHECK((outcome.status == 0 || outcome.status == 2));
    CHECK(is_utf8(outcome.out));
    CHECK(is_utf8(outcome.err));
    CHECK(outcome.err.find("internal") == std::string::npos);
  }
}
