// What the Trainer and programs around it call an optimizer. Tested by tests/launch/unread_test.cpp.
#include <fmt/core.h>

#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/launch/trainer/sources.hpp"
#include "formulas/names.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/yaml.hpp"

namespace plan::hugging_face {
namespace {

struct OptimizerName {
  Optimizer optimizer;
  std::string_view name;
};

/// Names that the Trainer has for an optimizer; the first of each is the one to write.
constexpr OptimizerName kOptimizers[] = {
    {Optimizer::Adam, "adamw_torch_fused"},
    {Optimizer::Adam, "adamw_torch"},
    {Optimizer::Adam, "adamw_hf"},
    {Optimizer::Adam, "adamw_apex_fused"},
    {Optimizer::Adam, "adamw_anyprecision"},
    {Optimizer::Adam, "AdamW"},
    {Optimizer::Adam, "Adam"},
    {Optimizer::Sgd, "SGD"},
    {Optimizer::Adam8bit, "PagedAdamW8bit"},
    {Optimizer::Adam8bit, "AdamW8bit"},
    {Optimizer::Adam8bit, "adamw_bnb_8bit"},
    {Optimizer::Adam8bit, "adamw_8bit"},
    {Optimizer::Adam8bit, "adamw_torch_8bit"},
    {Optimizer::Adam8bit, "paged_adamw_8bit"},
    {Optimizer::Adafactor, "adafactor"},
    {Optimizer::Sgd, "sgd"},
};

/// Adam under a class's name or with what only changes how it is computed: `torch.optim.AdamW`, `FusedAdam`,
/// `adamw_torch_npu_fused`. Neither moments of 8 bits nor other rules are among them.
bool is_adam(std::string_view word) {
  std::string name = lowered(std::string(word.substr(word.rfind('.') == word.npos ? 0 : word.rfind('.') + 1)));
  std::erase_if(name, [](char c) { return c == '_' || c == '-'; });
  for (const std::string_view how : {"fused", "torch", "apex", "cpu", "deepspeed", "npu", "xla", "32bit", "hf"})
    if (const std::size_t at = name.find(how); at != std::string::npos) name.erase(at, how.size());
  return name == "adam" || name == "adamw";
}

}  // namespace

std::string_view optimizer_word(Optimizer optimizer) {
  for (const OptimizerName& row : kOptimizers)
    if (row.optimizer == optimizer) return row.name;
  return {};
}

void read_optimizer(JobBuilder& builder) {
  Settings& settings = builder.settings;
  std::string_view key = "args.optim";
  std::optional<std::string> word = settings.text(key);
  const bool trainers = word.has_value();
  for (const std::string_view own : {"args.optimizer", "args.optimizer_type", "args.optimizer_name"})
    if (const Setting* const stated = settings.find(own); !word && stated != nullptr && !stated->list)
      word = settings.text(key = own);
  const std::string lower = lowered(word.value_or(""));
  if (lower == "muon" || settings.boolean("args.use_muon").value_or(false)) {
    builder.training.optimizer = Optimizer::Muon;
    return builder.origin("optimizer", name(Optimizer::Muon), lower == "muon" ? key : "args.use_muon");
  }
  if (!word || (!trainers && switched_off(*word))) return;
  for (const OptimizerName& row : kOptimizers)
    if (row.name == *word || (!trainers && lowered(std::string(row.name)) == lower)) {
      builder.training.optimizer = row.optimizer;
      return builder.origin("optimizer", name(row.optimizer), key);
    }
  if (is_adam(*word)) return builder.origin("optimizer", name(builder.training.optimizer), key);
  builder.unmodelled("optimizer_unknown", fmt::format("{}: the optimizer `{}` is not modelled: counted as adam",
                                                      settings.where(key), yaml::printable(*word)));
}

}  // namespace plan::hugging_face
