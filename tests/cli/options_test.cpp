#include "cli/request/flags/options.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <fstream>
#include <set>
#include <sstream>

#include "check_files.hpp"
#include "cli/commands/help.hpp"
#include "cli/request/table/command_table.hpp"
#include "cli/request/table/option_table.hpp"
#include "cli/request/words/choice_words.hpp"
#include "contents.hpp"
#include "presets/entries.hpp"
#include "presets/shell_quoted.hpp"
#include "temporary_folder.hpp"

using namespace plan;

namespace {
std::string first_error(const std::vector<std::string>& words) {
  const Result<Args> args = parse_arguments(words);
  return args ? "" : args.error()[0].message;
}
}  // namespace

TEST_CASE("flags before and after the verb, with = and without") {
  const Args args =
      parse_arguments({"--model", "405b", "estimate", "--gpus=16384", "--layout", "tp8", "--json"}).value();
  CHECK(args.verb == "estimate");
  CHECK(args.model == "405b");
  CHECK(args.gpus == "16384");
  CHECK(args.json);
  CHECK(parse_arguments({"explain", "activations", "--stage", "1"}).value().words ==
        std::vector<std::string>{"activations"});
  CHECK(parse_arguments({"-o", "f.json"}).value().output == "f.json");
  CHECK(parse_arguments({"formula", "x", "--set", "s=1", "--set", "b=2"}).value().set.size() == 2);
  CHECK(parse_arguments({"diagnose", "--trace", "a", "--nsys", "b", "--trace", "c"}).value().trace.size() == 3);
}

TEST_CASE("`--json` beside another format is refused, whatever the command") {
  for (const Command& command : kCommands)
    for (const char* format : {"human", "html", "csv"}) {
      std::vector<std::string> words = {"--json", "--format", format};
      if (!command.name.empty()) words.insert(words.begin(), std::string(command.name));
      const checks::Ran ran = checks::run(words);
      CAPTURE(command.name);
      CHECK(ran.status == 2);
      CHECK(ran.out.empty());
    }
  CHECK(checks::run({"list", "models", "--json", "--format", "json"}).status == 0);
}

TEST_CASE("a value may look like a verb, a number or two words") {
  CHECK(parse_arguments({"--model", "list", "--gpus", "-5"}).value().gpus == "-5");
  CHECK(parse_arguments({"--model", "list"}).value().model == "list");
  CHECK(parse_arguments({"--global-batch", "16M", "tokens", "--seq", "8192"}).value().global_batch == "16M tokens");
  CHECK(parse_arguments({"--list", "models"}).value().verb == "list");
}

TEST_CASE("one error for each mistake") {
  CHECK(first_error({"--modle", "405b", "--gpus", "3"}) == "unknown flag `--modle`");
  CHECK(parse_arguments({"--modle", "405b"}).error()[0].help[0] == "a flag with a similar name exists: `--model`");
  CHECK(parse_arguments({"--modle", "405b"}).error().size() == 1);
  CHECK(first_error({"estimat", "--gpus", "3"}) == "unknown command `estimat`");
  CHECK(parse_arguments({"completion"}).error().front().help.front() ==
        "write `plan --completion bash`, `zsh` or `fish`");
  CHECK(first_error({"--model"}) == "`--model` needs a value");
  CHECK(first_error({"--model", "--gpus", "3"}) == "`--model` needs a value");
  CHECK(first_error({"--gpus", "3", "--gpus", "4"}) == "`--gpus` is given 2 times: 3, 4");
  CHECK(first_error({"list", "models", "gpus"}) == "unexpected word `gpus` after `plan list`");
  CHECK(first_error({"--set", "s=1"}) == "`--set` does not go with `plan`");
  CHECK(first_error({"--precision", "bf61"}) == "unknown precision `bf61`");
  CHECK(first_error({"-x"}) == "unknown flag `-x`");
  CHECK(first_error({"--json=maybe"}) != "");
  CHECK(parse_arguments({"--modle", "a", "--gpsu", "3"}).error().size() == 2);
}

TEST_CASE("several values of a flag are told as one list, or as the command that takes them, which does") {
  const auto help = [](const std::string& flag, const std::string& a, const std::string& b) {
    const auto args = parse_arguments({"--model", "8b", flag, a, flag, b});
    REQUIRE_FALSE(args);
    CHECK(args.error().front().code == "given_twice");
    return args.error().front().help;
  };
  using Help = std::vector<std::string>;
  CHECK(help("--layout", "tp2", "pp4,zero1") == Help{"write `--layout tp2,pp4,zero1`"});
  CHECK(help("--offload", "optimizer", "parameters") == Help{"write `--offload optimizer,parameters`"});
  CHECK(help("--state-formats", "grads=bf16", "moments=bf16") ==
        Help{"write `--state-formats grads=bf16,moments=bf16`"});
  CHECK(help("--seq", "4096", "8192").back() == "several values are swept: `plan sweep --seq 4096,8192`");
  CHECK(help("--gpu", "h100-sxm", "b200").back() == "several values are swept: `plan sweep --gpu h100-sxm,b200`");
  CHECK(help("--headroom", "5%", "10%") == Help{"write it once"});
  CHECK(help("--layout", "tp2,pp2", "tp4") ==
        Help{"write it once", "two layouts are compared: `plan compare tp2,pp2 pp2,tp4`"});
  const auto compared = parse_arguments({"compare", "tp2,pp2", "pp2,tp4", "--model", "8b", "--gpus", "64"});
  REQUIRE(compared);
  CHECK(compared->words == std::vector<std::string>{"tp2,pp2", "pp2,tp4"});
}

TEST_CASE("a word without a flag is told the flag that its neighbours leave open") {
  const auto help = [](const std::vector<std::string>& words) { return parse_arguments(words).error()[0].help[0]; };
  CHECK(help({"405b", "--gpus", "64"}) == "a model is named with a flag: `--model 405b`");
  CHECK(help({"--model", "405b", "16384"}) == "write `--gpus 16384`");
  CHECK(help({"--model", "405b", "16k"}) == "write `--gpus 16k`");
  CHECK(help({"sweep", "70b"}) == "a model is named with a flag: `--model 70b`");
  for (const char* flag : {"--model", "--gpu", "--precision"})
    CHECK(help({flag, "H100", "80GB", "--gpus", "8"}) ==
          std::string("write `") + flag + " 'H100 80GB'`: a value with a space needs quotes");
  CHECK(help({"plan", "--model", "8b"}) == "leave `plan` out: what is planned needs no command");
  CHECK(help({"--model", "8b", "--gpus=8", "estimat"}) == "a command with a similar name exists: `estimate`");
}

TEST_CASE("a file without a flag is told the flag that reads it") {
  const TemporaryFolder folder;
  const std::string script = folder.write("run.sh", "torchrun pretrain_gpt.py\n");
  const std::string config = folder.write("config.json", "{}");
  const auto help = [](const std::vector<std::string>& words) { return parse_arguments(words).error()[0].help[0]; };
  for (const char* verb : {"estimate", "diagnose", "sweep"})
    CHECK(help({verb, script}) == "write `--from " + script + "`");
  CHECK(help({"estimate", config}) == "write `--model " + config + "`");
  CHECK(help({"estimate", folder.path().string()}) == "write `--model " + folder.path().string() + "`");
  CHECK(help({script, "--gpus", "8"}) == "write `--from " + script + "`");
  CHECK(help({"estimate", script + "x"}) == "see `plan estimate --help`");
  CHECK(help({"list", "models", script}) == "see `plan list --help`");
}

TEST_CASE("every flag and every verb is in the manual") {
  const std::string manual = contents_of(PLAN_SOURCE_DIR "/man/plan.1");
  REQUIRE_FALSE(manual.empty());
  for (const Option& option : options()) {
    CAPTURE(option.flag);
    const std::string escaped = "Fl -" + std::string(option.flag.substr(2));
    CHECK(manual.find(escaped) != std::string::npos);
  }
  for (const Command& command : kCommands) {
    CAPTURE(command.name);
    CHECK((command.name.empty() || manual.find(std::string(command.name)) != std::string::npos));
  }
}

TEST_CASE("help and completions name every flag, in 80 columns") {
  for (const Command& command : kCommands) {
    const std::string help = help_text(command, true, Terminal{});
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(display_width(line) <= 80);
    }
  }
  const std::string scripts[] = {completion_script("bash"), completion_script("zsh"), completion_script("fish")};
  for (const Option& option : options()) {
    CAPTURE(option.flag);
    for (const std::string& script : scripts) CHECK(script.find(option.flag.substr(2)) != std::string::npos);
    CHECK(option.verbs != 0);
  }
}

TEST_CASE("help has each heading once, each flag of the verb once, and all explanations in one column") {
  constexpr std::size_t kColumn = 27;
  for (const Command& command : kCommands) {
    const std::string help = help_text(command, true, Terminal{});
    CAPTURE(help);
    std::set<std::string_view> groups;
    for (const Option& option : options()) {
      const bool taken = (option.verbs & command.bit) != 0;
      std::string left = "\n" + (option.letter == 0 ? "  " : std::string("  -") + option.letter + ", ");
      left += option.flag;
      if (!option.argument.empty()) left += " " + std::string(option.argument);
      CAPTURE(left);
      std::size_t at = help.find(left);
      while (at != std::string::npos && help[at + left.size()] != ' ' && help[at + left.size()] != '\n')
        at = help.find(left, at + 1);  // a longer flag
      REQUIRE((at != std::string::npos) == taken);
      if (!taken) continue;
      groups.insert(option.group);
      // Two blanks at least stand between a flag and its help, which goes to the next line where they do not fit.
      const std::size_t used = display_width(left.substr(1));
      const bool beside = used + 2 <= kColumn;
      const std::size_t help_at = at + left.size() + (beside ? kColumn - used : kColumn + 1);
      CHECK(help.substr(at + left.size(), help_at - at - left.size()) ==
            (beside ? "" : "\n") + std::string(beside ? kColumn - used : kColumn, ' '));
      CHECK(help[help_at] == option.help.front());
    }
    for (const std::string_view group : groups) {
      const std::string heading = "\n" + std::string(group) + "\n";
      const std::size_t at = help.find(heading);
      CAPTURE(heading);
      REQUIRE(at != std::string::npos);
      CHECK(help.find(heading, at + 1) == std::string::npos);
    }
  }
}

TEST_CASE("words are read in capitals, with underscores, and as others write them") {
  int read = 0;
  for (const Option& option : options()) {
    if (option.words == nullptr) continue;
    for (const std::string& word : option.words()) {
      std::string other = word;
      for (char& c : other) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      CAPTURE(other);
      CHECK(read_choice(option.flag, other).value_or("") == word);
      ++read;
    }
  }
  CHECK(read > 30);
  const char* const others[][3] = {{"--precision", "bfloat16", "bf16"}, {"--precision", "FP8_CS", "fp8"},
                                   {"--optimizer", "AdamW", "adam"},    {"--framework", "Megatron-LM", "megatron"},
                                   {"--task", "SFT", "finetune"},       {"--task", "cpt", "pretrain"}};
  for (const auto& [flag, word, meant] : others) CHECK(read_choice(flag, word).value_or("") == meant);
  const char* const open[][3] = {{"--framework", "FSDP", "torchtitan"},
                                 {"--framework", "trl", "accelerate"},
                                 {"--precision", "tf32", "fp32"},
                                 {"--task", "dpo", "lora"}};
  for (const auto& [flag, word, hint] : open) {
    const Result<std::string> choice = read_choice(flag, word);
    REQUIRE_FALSE(choice);
    CHECK(choice.error().front().help.front().find(hint) != std::string::npos);
  }
}

TEST_CASE("a name without its kind, and a framework for its files, are told what to write") {
  using plan::checks::run;
  for (const auto& [words, help] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"show", "405b"}, "help: write `plan show model 405b`"},
           {{"show", "h200"}, "help: write `plan show gpu h200`"},
           {{"show", "dgx-b200"}, "help: write `plan show cluster dgx-b200`"},
           {{"show", "bubble-ratio"}, "help: write `plan show formula bubble-ratio`"},
           {{"emit", "nemo", "-o", "x"}, "of that framework are megatron-lm, flagscale, megatron-bridge,"},
           {{"emit", "torchtitann", "-o", "x"}, "the nearest is `torchtitan`"}}) {
    const plan::checks::Ran ran = run(words);
    CAPTURE(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.err.find(help) != std::string::npos);
  }
}

TEST_CASE("a list of words is a sweep's, flag by flag, and every other command refuses it") {
  const std::pair<const char*, const char*> lists[] = {
      {"--precision", "bf16,fp8"}, {"--optimizer", "adam,sgd"}, {"--task", "pretrain,sft"}};
  for (const auto& [flag, list] : lists) {
    const std::string text = list, first = text.substr(0, text.find(','));
    CAPTURE(text);
    CHECK(first_error({"sweep", flag, text}) == "");
    for (const char* verb : {"estimate", "explain"}) {
      CAPTURE(std::string(verb));
      CHECK(first_error({verb, flag, first}) == "");
      CHECK(first_error({verb, flag, text}).find('`' + text + '`') != std::string::npos);
    }
  }
}

TEST_CASE("GPUs that stand without their flag are answered with a flag that takes them, in every command that has it") {
  const auto help_of = [](const std::vector<std::string>& words) {
    const Result<Args> read = parse_arguments(words);
    REQUIRE_FALSE(read.has_value());
    return read.error().front().help.front();
  };
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, {}))
    for (const char* verb : {"", "estimate", "sweep", "emit", "explain"}) {
      std::vector<std::string> words = {"--model", "8b"};
      if (*verb != '\0') words.insert(words.begin(), verb);
      if (std::string_view(verb) == "explain" || std::string_view(verb) == "emit")
        words.insert(words.begin() + 1, std::string_view(verb) == "emit" ? "megatron-lm" : "memory");
      CAPTURE(verb);
      CAPTURE(entry.name);
      words.push_back("16x" + entry.name);
      CHECK(help_of(words) == "write `--gpus 16x" + entry.name + "`");
      words.back() = entry.name;
      CHECK(help_of(words) == "a GPU is named with a flag: `--gpu " + entry.name + "`");
    }
  CHECK(help_of({"compare", "tp2", "tp4", "tp8", "--model", "8b"}).find("leave `tp8` out") != std::string::npos);
  CHECK(help_of({"list", "models", "qwen"}).find("`plan list models | grep -iF qwen`") != std::string::npos);
}

namespace {
std::string all_help(const std::vector<std::string>& words) {
  const Result<Args> args = parse_arguments(words);
  std::string out;
  if (!args)
    for (const Error& error : args.error())
      for (const std::string& help : error.help) out += help + "\n";
  return out;
}
}  // namespace

TEST_CASE("words that are proposed for pasting are one word of a shell each, whatever they hold") {
  for (const std::string name : {"llama 3", "a;b", "$(rm -rf x)", "it's", "a`b", "x>y", "*"}) {
    CAPTURE(name);
    CHECK(all_help({"list", "models", name}).find("| grep -iF " + shell_quoted(name) + "`") != std::string::npos);
    const std::string log = "ok " + std::to_string(name.size()) + name + ".log";
    std::ofstream(log) << "no step\n";
    CHECK(all_help({"diagnose", log}).find("write `--log " + shell_quoted(log) + "`") != std::string::npos);
    std::filesystem::remove(log);
  }
  CHECK(all_help({"list", "models", "zzz"}).find("some of its names") == std::string::npos);
}

TEST_CASE("names with blanks are put together where they are known, and a third word of a comparison finds its flag") {
  const std::pair<std::vector<std::string>, const char*> rows[] = {
      {{"--model", "8b", "--cluster", "dgx", "h100", "--gpus", "8"}, "write `--cluster 'dgx h100'`"},
      {{"--model", "llama", "3", "8b", "--gpus", "8"}, "write `--model 'llama 3 8b'`"},
      {{"compare", "tp8", "tp4", "--model", "llama", "3", "8b"}, "write `--model 'llama 3 8b'`"},
      {{"compare", "tp8", "tp4", "64", "--model", "8b"}, "write `--gpus 64`"},
      {{"compare", "tp8", "tp4", "8b", "--gpus", "64"}, "`--model 8b`"},
      {{"compare", "tp8", "tp4", "h100", "--model", "8b"}, "`--gpu h100`"},
      {{"compare", "tp8", "tp4", "tp2", "--model", "8b"}, "leave `tp2` out"},
      {{"compare", "tp8", "pp2", "tp4", "pp2", "--model", "8b"}, "write `plan compare tp8,pp2 tp4,pp2`"}};
  for (const auto& row : rows) {
    const std::string help = all_help(row.first);
    CAPTURE(help);
    CHECK(help.find(row.second) != std::string::npos);
    CHECK(parse_arguments(row.first).error().size() == 1);
  }
}
