// From the words of a budget and the launch files that it names to a problem. The words go the way of flags, so that
// both mean the same; mistakes are then told in the budget's terms. Tested by tests/cli/check_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/check/check.hpp"
#include "cli/launch/launch.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/unstated.hpp"
#include "planner/problem/complete_layout.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// Flag of a key: `global_batch` is --global-batch.
std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

struct Word {
  std::string_view key;
  Args::Text Args::*slot;
};
constexpr Word kWords[] = {{"model", &Args::model},
                           {"seq", &Args::seq},
                           {"global_batch", &Args::global_batch},
                           {"precision", &Args::precision},
                           {"optimizer", &Args::optimizer},
                           {"task", &Args::task},
                           {"lora_rank", &Args::lora_rank},
                           {"gpus", &Args::gpus},
                           {"gpu", &Args::gpu},
                           {"cluster", &Args::cluster},
                           {"profile", &Args::profile},
                           {"framework", &Args::framework},
                           {"layout", &Args::layout},
                           {"headroom", &Args::headroom}};

/// "16384 x h100-sxm" is a number and a kind.
void split_gpus(Args& args) {
  if (!args.gpus) return;
  const std::size_t at = args.gpus->find(" x ");
  if (at == std::string::npos) return;
  std::string kind = args.gpus->substr(at + 3);
  kind.erase(0, kind.find_first_not_of(' '));
  args.gpus->resize(args.gpus->find_last_not_of(' ', at) + 1);
  if (!args.cluster && !args.profile && !args.gpu) args.gpu = std::move(kind);
}

Args job_arguments(const BudgetJob& job, const Args& typed) {
  Args args;
  args.threads = typed.threads;
  args.strict = typed.strict;
  args.arguments = typed.arguments;
  for (const Word& word : kWords)
    if (const auto found = job.words.find(word.key); found != job.words.end()) args.*word.slot = found->second.text;
  split_gpus(args);
  for (const Placed& file : job.from) args.from.push_back(file.text);
  if (typed.profile) args.profile = typed.profile, args.gpu.reset(), args.cluster.reset();
  return args;
}

const Placed* find_word(const BudgetJob& job, std::string_view key) {
  const auto found = job.words.find(key);
  return found == job.words.end() ? nullptr : &found->second;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Key that an error about a flag is about; empty if it names none.
std::string_view key_of(const BudgetJob& job, const Error& error) {
  for (const Word& word : kWords)
    if (error.message.find("`" + flag_of(word.key) + "`") != std::string::npos ||
        error.message.find("`" + flag_of(word.key) + " ") != std::string::npos)
      return word.key;
  for (const Word& word : kWords)
    if (error.code == "unknown_" + std::string(word.key))
      return word.key == "gpu" && !find_word(job, "gpu") ? "gpus" : word.key;
  return {};
}

/// "write `--gpus 16384`; see `plan --help`" as it is written in a budget.
std::string help_in_budget(std::string help, std::string_view key) {
  const std::string flag = flag_of(key);
  replace_all(help, flag + " ", std::string(key) + ": ");
  replace_all(help, flag, std::string(key));
  replace_all(help, "; see `plan --help`", "");
  return help;
}

Error in_budget(Error error, const BudgetJob& job) {
  const std::string_view key = key_of(job, error);
  if (!key.empty()) {
    replace_all(error.message, flag_of(key), key);
    for (std::string& help : error.help) help = help_in_budget(std::move(help), key);
  }
  if (error.code == "missing_flag" && !job.from.empty()) {
    error.message += fmt::format(": neither the budget nor `{}` states it", job.from.front().text);
    if (job.from.size() > 1) error.message += fmt::format(" (or the {} files with it)", job.from.size() - 1);
  }
  if (!error.place.file.empty()) return error;
  if (key.empty() && !job.from.empty()) {  // a launch file that says too little
    std::string files;
    for (const Placed& file : job.from) files += (files.empty() ? "" : ", ") + file.text;
    error.facts.push_back(fmt::format("read from {}", files));
    error.place = job.from.front().place;
    return error;
  }
  const Placed* word = find_word(job, key);
  error.place = word != nullptr ? word->place : job.place;
  return error;
}

/// Words of the budget are no flags: their inputs name its lines.
void name_origins(const BudgetJob& job, std::vector<Input>& inputs) {
  for (Input& input : inputs) {
    if (input.origin != Origin::Flag) continue;
    const Placed* word = find_word(job, input.key);
    if (word == nullptr && input.key == "gpu") word = find_word(job, "gpus");
    if (word == nullptr) continue;
    input.origin = Origin::File;
    input.where = fmt::format("{}:{}", word->place.file, word->place.line);
  }
}

}  // namespace

Result<ResolvedJob> resolve_job(const BudgetJob& job, const Args& typed) {
  Result<Problem> problem = resolve_problem(job_arguments(job, typed));
  if (!problem) {
    Errors errors;
    for (Error& error : problem.error()) errors.push_back(in_budget(std::move(error), job));
    return fail(std::move(errors));
  }
  ResolvedJob out{.budget = &job, .problem = std::move(*problem), .run = job.budget.run};
  name_origins(job, out.problem.inputs);
  if (find_word(job, "layout") != nullptr || !job.from.empty()) out.layout = complete_layout(out.problem);
  for (const std::string& line : unstated_lines(out.problem)) out.notes.push_back({"not_stated", line});
  out.notes.insert(out.notes.end(), out.problem.notes.begin(), out.problem.notes.end());
  std::erase_if(out.notes, [](const Note& note) { return note.code == "defaults_taken"; });
  out.homes = out.problem.homes;
  if (!(out.run.price > 0)) out.run.price = out.problem.cluster.gpu.price_per_hour;
  Errors errors;
  for (const Limit& limit : job.budget.limits)
    if (limit.metric == Metric::Cost && !(out.run.price > 0))
      errors.push_back({"missing_key",
                        fmt::format("`cost` needs a price: none is known for {}", out.problem.cluster.gpu.name),
                        {},
                        {"write `price: 2.5 USD/h` beside `limits`"},
                        limit.place});
  if (!errors.empty()) return fail(std::move(errors));
  return out;
}

}  // namespace plan
