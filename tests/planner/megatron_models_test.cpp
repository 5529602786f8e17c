// Which layers Megatron-Bridge has of its own, on models that are edited one fact at a time; of published models
// tests/frameworks/framework_models_test.cpp asks the same.
#include "planner/rules/megatron_models.hpp"

#include <doctest/doctest.h>

#include "oracle/random_problem.hpp"

using namespace plan;

TEST_CASE("Megatron-Bridge builds layers that no flag describes where they are Gemma's or OLMoE's, and no others") {
  const Model plain = oracle::dense_model(8, 1024, 8, 8, 4096, 32000);
  CHECK(megatron_flags_lack(plain).empty());
  Model gemma = plain;
  gemma.tied = true;
  gemma.kinds[0].norms = 4, gemma.kinds[0].dense.gated = true;
  Model olmoe = plain;
  olmoe.kinds[0].ffn = Ffn::Moe, olmoe.kinds[0].dense = {};
  olmoe.kinds[0].moe = {.experts = 64, .top_k = 8, .expert_width = 1024};
  olmoe.kinds[0].attention.qk_norm = QkNorm::Full;
  struct Edit {
    const char* what;
    void (*make)(Model&);
  };
  const Edit of_both[] = {{"norm of the embedding", [](Model& m) { m.embedding_norm = true; }},
                          {"bias of the head", [](Model& m) { m.head_bias = true; }},
                          {"a norm too few", [](Model& m) { --m.kinds[0].norms; }},
                          {"a norm too many", [](Model& m) { ++m.kinds[0].norms; }},
                          {"two attentions", [](Model& m) {
                             m.kinds.push_back(m.kinds[0]);
                             m.kinds.back().attention.kv_heads /= 2;
                             m.layers.back() = 1;
                           }}};
  const Edit of_gemma[] = {{"a head of its own", [](Model& m) { m.tied = false; }},
                           {"no gate", [](Model& m) { m.kinds[0].dense.gated = false; }},
                           {"experts",
                            [](Model& m) {
                              m.kinds[0].ffn = Ffn::Moe, m.kinds[0].dense = {};
                              m.kinds[0].moe = {.experts = 64, .top_k = 8, .expert_width = 1024};
                            }},
                           {"one layer of another kind", [](Model& m) {
                              m.kinds.push_back(m.kinds[0]);
                              m.kinds.back().norms = 2;
                              m.layers.back() = 1;
                            }}};
  const Edit of_olmoe[] = {{"a narrower width", [](Model& m) { m.kinds[0].moe.latent = 512; }},
                           {"no experts", [](Model& m) {
                              m.kinds[0].ffn = Ffn::Dense, m.kinds[0].moe = {};
                              m.kinds[0].dense.width = 4096;
                            }}};
  const auto check = [](const Model& model, const auto& edits) {
    CHECK_FALSE(megatron_flags_lack(model).empty());
    CHECK(megatron_lacks(model).empty());
    for (const Edit& edit : edits) {
      CAPTURE(edit.what);
      Model other = model;
      edit.make(other);
      CHECK_FALSE(megatron_lacks(other).empty());
      CHECK(megatron_lacks(other) == megatron_flags_lack(other));
    }
  };
  check(gemma, of_both), check(gemma, of_gemma);
  check(olmoe, of_both), check(olmoe, of_olmoe);
}
