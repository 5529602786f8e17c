// What of a NeMo-RL job is not the training: nodes that generate or judge on their own, models beside the trained one;
// and preferences, of which each is two sequences. NeMo-RL 0.7, nemo_rl/algorithms/grpo.py, distillation.py, dpo.py and
// rm.py. Tested by tests/launch/nemo_rl_test.cpp.
#include "cli/launch/post_training/nemo_rl.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

namespace plan::nemo_rl {
namespace {

constexpr std::string_view kNodes = "cluster.num_nodes", kGpus = "cluster.gpus_per_node";

bool has_section(const StatedKeys& keys, std::string_view section) {
  const auto at = keys.lower_bound(section);
  return at != keys.end() && at->first.starts_with(section);
}

/// Somebody else's GPUs: whole nodes of a cluster that has several, else some of the one node's.
struct Share {
  std::string_view section;  ///< of its resources, with a dot behind
  std::string_view does;
  int nodes = 0, gpus = 0;
  std::string where{};
};

std::vector<Share> shares(const StatedKeys& keys) {
  std::vector<Share> out;
  const auto take = [&](std::string_view section, std::string_view does) {
    const std::string nodes = fmt::format("{}num_nodes", section), gpus = fmt::format("{}gpus_per_node", section);
    out.push_back({section, does, number_of(keys, nodes), number_of(keys, gpus),
                   where_of(keys, number_of(keys, nodes) > 0 ? nodes : gpus)});
  };
  const auto apart = keys.find("policy.generation.colocated.enabled");
  if (apart != keys.end() && is_false(apart->second)) take("policy.generation.colocated.resources.", "generate");
  const bool judged =
      is_on(keys, "env.reward_model.enabled") || std::any_of(keys.begin(), keys.end(), [](const auto& row) {
        return row.first.starts_with("data.") && row.first.ends_with("env_name") &&
               row.second.values == std::vector<std::string>{"reward_model"};
      });
  if (judged && has_section(keys, "env.reward_model.resources.")) take("env.reward_model.resources.", "judge");
  return out;
}

void leave_out_shares(StatedKeys& keys, Roles& roles) {
  const int nodes = std::max(1, number_of(keys, kNodes));
  for (const Share& share : shares(keys)) {
    const bool whole = nodes > 1;
    const std::string_view key = whole ? kNodes : kGpus;
    const int all = number_of(keys, key), taken = whole ? share.nodes : share.gpus;
    const std::string stated = where_of(keys, key);
    if (taken < 1 || all <= taken) {
      roles.errors.push_back(
          {"wrong_value",
           fmt::format("{}: of {} {} the training is left none", taken < 1 ? stated : share.where, all,
                       whole ? "nodes" : "GPUs"),
           {fmt::format("`{}{}` are those that {}", share.section, whole ? "num_nodes" : "gpus_per_node", share.does)},
           {fmt::format("state fewer there than the {} of `{}`", all, key)}});
      continue;
    }
    keys[std::string(key)] = {{fmt::format("{}", all - taken)}, stated};
    roles.notes.push_back({"gpus_elsewhere", fmt::format("{}: {} of {} {} {}, and are not counted", share.where, taken,
                                                         all, whole ? "nodes" : "GPUs of the node", share.does)});
  }
  constexpr std::string_view kTeachers = "on_policy_distillation.non_colocated_teachers.enabled";
  if (is_on(keys, kTeachers))
    roles.unused.push_back({"not_used", fmt::format("{}: `{}`: the teachers' nodes are counted as if they trained",
                                                    where_of(keys, kTeachers), kTeachers)});
}

/// DPO and reward models are given pairs: batches are stated in pairs and run as twice as many sequences.
void count_pairs(StatedKeys& keys, Roles& roles) {
  const std::string_view section = has_section(keys, "dpo.") ? "dpo." : has_section(keys, "rm.") ? "rm." : "";
  if (section.empty()) return;
  for (const char* key : {"policy.train_global_batch_size", "policy.train_micro_batch_size"}) {
    const auto found = keys.find(key);
    const int pairs = number_of(keys, key);
    if (found == keys.end() || pairs < 1 || pairs > 1 << 24) continue;
    found->second.values = {fmt::format("{}", 2 * pairs)};
    roles.notes.push_back(
        {"pairs", fmt::format("{}: `{}` of {} pairs is {} sequences", found->second.where, key, pairs, 2 * pairs)});
  }
}

void name_models_beside(const StatedKeys& keys, Roles& roles) {
  struct Beside {
    std::string_view section, key, what;
  };
  constexpr Beside kBeside[] = {
      {"teacher.", "teacher.model_name", "the teacher beside the trained model is not counted"},
      {"value.", "value.model_name", "the critic beside the trained model is not counted"},
      {"dpo.", "dpo.reference_policy_kl_penalty", "the reference model beside the trained one is not counted"},
  };
  for (const auto& [section, key, what] : kBeside)
    if (has_section(keys, section)) {
      const std::string stated = where_of(keys, key);
      roles.unused.push_back(
          {"not_used",
           fmt::format("{}: `{}`: {}", stated.empty() ? keys.lower_bound(section)->second.where : stated, key, what)});
    }
  constexpr std::string_view kPenalty = "loss_fn.reference_policy_kl_penalty";
  const std::string penalty = word_of(keys, kPenalty);
  if (penalty.find_first_of("123456789") != std::string::npos)
    roles.unused.push_back(
        {"not_used", fmt::format("{}: `{}`: the reference model beside the trained one is not counted",
                                 where_of(keys, kPenalty), kPenalty)});
}

}  // namespace

void take_second_dtensor(StatedKeys& keys) {
  constexpr std::string_view kSecond = "policy.dtensor_v2_cfg.";
  if (!is_on(keys, std::string(kSecond) + "enabled")) return;
  std::erase_if(keys, [](const auto& key) { return key.first.starts_with("policy.dtensor_cfg."); });
  for (const auto& [key, value] : keys_under(keys, kSecond)) {
    keys.erase(std::string(kSecond) + key);
    keys["policy.dtensor_cfg." + key] = value;
  }
}

Roles take_roles(StatedKeys& keys) {
  Roles roles;
  leave_out_shares(keys, roles);
  name_models_beside(keys, roles);
  count_pairs(keys, roles);
  return roles;
}

}  // namespace plan::nemo_rl
