// DeepSpeed's file as the Trainer's tools name it: one that lies beside theirs, or one that the tool brings with it.
// Tested by tests/launch/reading_test.cpp and trainer_tuning_test.cpp.
#include "cli/launch/trainer/sources.hpp"
#include "formulas/keep_errors.hpp"

namespace plan::hugging_face {
namespace {

/// A file that a tool brings with it. Buckets and the like are DeepSpeed's own or the Trainer's to fill in.
struct BuiltIn {
  std::string_view name;
  std::string_view stage;
  bool optimizer = false, parameters = false;  ///< go to the host
  bool bf16 = false;                           ///< stated, and not the Trainer's to say
};

/// What ms-swift puts in the place of `--deepspeed zero3`: swift/config.
constexpr BuiltIn kSwift[] = {{"zero0", "0"},
                              {"zero1", "1"},
                              {"zero2", "2"},
                              {"zero3", "3"},
                              {"zero2_offload", "2", true},
                              {"zero3_offload", "3", true, true}};

/// axolotl's deepspeed_configs, which its images hold and `axolotl fetch` writes.
constexpr BuiltIn kAxolotl[] = {{"zero1", "1"},
                                {"zero2", "2", true},
                                {"zero3", "3"},
                                {"zero3_bf16", "3", false, false, true},
                                {"zero3_bf16_cpuoffload_all", "3", true, true, true},
                                {"zero3_bf16_cpuoffload_params", "3", false, true, true}};

void take(const BuiltIn& row, const Setting& named, Settings& all) {
  set(all, "ds.zero_optimization.stage", std::string(row.stage), named);
  for (const char* key : {"ds.bf16.enabled", "ds.fp16.enabled"})
    if (!row.bf16) set(all, key, "auto", named);
  if (row.bf16) set(all, "ds.bf16.enabled", "true", named);
  if (row.optimizer) set(all, "ds.zero_optimization.offload_optimizer.device", "cpu", named);
  if (row.parameters) set(all, "ds.zero_optimization.offload_param.device", "cpu", named);
}

/// The file of axolotl's own that a path means which leads into one of its images: null where it means none.
const BuiltIn* of_axolotl(std::string_view path) {
  constexpr std::string_view kFolder = "deepspeed_configs/", kEnd = ".json";
  const std::size_t at = path.rfind(kFolder);
  if (at == std::string_view::npos || (at > 0 && path[at - 1] != '/') || !path.ends_with(kEnd)) return nullptr;
  path.remove_prefix(at + kFolder.size());
  path.remove_suffix(kEnd.size());
  for (const BuiltIn& row : kAxolotl)
    if (row.name == path) return &row;
  return nullptr;
}

}  // namespace

void follow_deepspeed(const LaunchSource& source, const Setting& named, Settings& all) {
  for (const BuiltIn& row : kSwift)
    if (named.value == row.name) return take(row, named, all);
  const std::optional<LaunchSource> file = beside(source, named.value);
  if (!file) {
    const BuiltIn* own = all.text("tool").value_or("") == "axolotl" ? of_axolotl(named.value) : nullptr;
    if (own == nullptr) return set(all, "ds.missing_file", named);
    take(*own, named, all);
    set(all, "ds.zero_optimization.overlap_comm", "true", named);
    return set(all, "args.deepspeed_configs", named);
  }
  const Result<Settings> keys = settings_of_json(*file);
  if (!keep_errors(all.errors(), keys)) return;
  all.remember(*file);
  for (const Setting& setting : keys->all()) set(all, "ds." + setting.key, setting);
}

}  // namespace plan::hugging_face
