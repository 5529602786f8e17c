// The golden totals of plan-formulas(7) A4, from the preset files.
#include <doctest/doctest.h>

#include <string>

#include "formulas/parameters.hpp"
#include "presets/reader.hpp"
#include "presets/yaml.hpp"
#include "tests/presets/stored_elements.hpp"

using plan::Model;
using plan::ModelParameters;

namespace {

Model preset(const std::string& name) {
  const auto text = plan::yaml::read_text(std::string(PLAN_SOURCE_DIR) + "/presets/models/" + name + ".yaml");
  REQUIRE(text.has_value());
  auto model = plan::read_model(*text, name);
  if (!model)
    for (const plan::Error& e : model.error()) MESSAGE(name, ":", e.place.line, " ", e.message);
  REQUIRE(model.has_value());
  return *model;
}

struct Row {
  const char* name;
  std::int64_t total;
};

// Trained parameters: neither buffers nor prediction modules.
constexpr Row kTotals[] = {
    {"gpt2", 124'439'808},
    {"gpt2-medium", 354'823'168},
    {"gpt2-large", 774'030'080},
    {"gpt2-xl", 1'557'611'200},
    {"gpt3-175b", 174'604'259'328},
    {"bloom-176b", 176'247'271'424},
    {"falcon-180b", 179'522'565'120},
    {"llama2-7b", 6'738'415'616},
    {"llama2-13b", 13'015'864'320},
    {"llama1-65b", 65'285'660'672},
    {"llama2-70b", 68'976'648'192},
    {"llama3-8b", 8'030'261'248},
    {"llama3-70b", 70'553'706'496},
    {"llama3-405b", 405'853'388'800},
    {"llama3.2-1b", 1'235'814'400},
    {"llama3.2-3b", 3'212'749'824},
    {"mistral-7b", 7'241'732'096},
    {"mixtral-8x7b", 46'702'792'704},
    {"mixtral-8x22b", 140'620'634'112},
    {"gemma-7b", 8'537'680'896},
    {"gemma2-2b", 2'614'341'888},
    {"gemma2-9b", 9'241'705'984},
    {"gemma2-27b", 27'227'128'320},
    {"gemma3-1b", 999'885'952},
    {"gemma3-27b", 27'009'346'304},
    {"qwen2.5-0.5b", 494'032'768},
    {"qwen2.5-7b", 7'615'616'512},
    {"qwen2.5-32b", 32'763'876'352},
    {"qwen2.5-72b", 72'706'203'648},
    {"qwen3-8b", 8'190'735'360},
    {"qwen3-32b", 32'762'123'264},
    {"qwen3-30b-a3b", 30'532'122'624},
    {"qwen3-235b-a22b", 235'093'634'560},
    {"qwen3-coder-480b-a35b", 480'154'875'392},
    {"qwen3-next-80b-a3b", 79'674'391'296},
    {"qwen1.5-moe-a2.7b", 14'315'784'192},
    {"deepseek-moe-16b", 16'375'728'128},
    {"deepseek-v2-lite", 15'706'484'224},
    {"deepseek-v2", 235'741'434'880},
    {"deepseek-v3", 671'026'404'352},
    {"kimi-k2", 1'026'408'232'448 - 60LL * 384},
    {"glm-5", 743'911'199'232},
    {"glm-5.2", 743'377'000'704},
    {"gpt-oss-20b", 20'914'757'184},
    {"gpt-oss-120b", 116'829'156'672},
    {"llama4-scout", 107'769'861'120},
    {"llama4-maverick", 400'711'848'960},
    {"nemotron3-nano-30b-a3b", 31'577'937'344},
    {"nemotron-h-56b", 56'324'350'464},
    {"olmo2-7b", 7'298'617'344},
    {"olmo2-13b", 13'716'198'400},
    {"olmo2-32b", 32'234'279'936},
    // Published shapes multiplied out: OLMo 6.89 B and 1.18 B, Switch-C 1571 B with its extra parameters.
    {"olmo-7b", 6'888'095'744},
    {"olmo-1b", 1'176'764'416},
    {"switch-c", 1'571'308'968'320},
    {"smollm3-3b", 3'075'098'624},
    {"moonlight-16b-a3b", 15'960'108'544},
    // Further totals that model cards or checkpoint indexes print.
    {"qwen2.5-1.5b", 1'543'714'304},
    {"qwen2.5-3b", 3'085'938'688},
    {"qwen2.5-14b", 14'770'033'664},
    {"qwen3-0.6b", 596'049'920},
    {"gemma-2b", 2'506'172'416},
    {"opt-125m", 125'239'296},
    {"pythia-70m", 70'426'624},
    {"pythia-160m", 162'322'944},
    {"pythia-410m", 405'334'016},
    {"pythia-1b", 1'011'781'632},
    {"pythia-1.4b", 1'414'647'808},
    {"pythia-2.8b", 2'775'208'960},
    {"pythia-6.9b", 6'857'302'016},
    {"pythia-12b", 11'846'072'320},
    {"falcon-7b", 6'921'720'704},
    {"falcon-40b", 41'303'293'952},
    {"mpt-7b", 6'649'286'656},
    {"tinyllama-1.1b", 1'100'048'384},
    {"phi-1.5", 1'418'270'720},
    {"phi-3-mini", 3'821'079'552},
    {"mistral-nemo-12b", 12'247'782'400},
    {"mistral-small-24b", 23'572'403'200},
    {"mistral-large-123b", 122'610'069'504},
    {"yi-34b", 34'388'917'248},
    {"gpt-j-6b", 6'050'882'784},
    {"phi-2", 2'779'683'840},
    {"yi-6b", 6'061'035'520},
    {"yi-1.5-9b", 8'829'407'232},
    {"smollm2-135m", 134'515'008},
    {"smollm2-360m", 361'821'120},
    {"smollm2-1.7b", 1'711'376'384},
    {"starcoder2-3b", 3'030'371'328},
    {"starcoder2-7b", 7'173'923'840},
    {"olmo2-1b", 1'484'916'736},
    {"internlm2-7b", 7'737'708'544},
    {"deepseek-llm-7b", 6'910'365'696},
    {"deepseek-coder-6.7b", 6'740'512'768},
    {"deepseek-coder-1.3b", 1'346'471'936},
    {"glm-4-9b", 9'399'951'360},
    {"chatglm3-6b", 6'243'584'000},
    {"phi-4-mini", 3'836'021'760},
    {"mistral-7b-v0.3", 7'248'023'552},
    {"gemma3-270m", 268'098'176},
    {"falcon3-7b", 7'455'550'464},
    {"baichuan2-7b", 7'505'973'248},
    {"seed-oss-36b", 36'151'104'512},
    {"open-llama-3b", 3'426'473'600},
    {"qwen1.5-7b", 7'721'324'544},
    {"deepseek-r1-distill-qwen-1.5b", 1'777'088'000},
    {"codellama-7b", 6'738'546'688},
    {"codellama-13b", 13'016'028'160},
    {"qwen1.5-0.5b", 463'987'712},
    {"qwen1.5-1.8b", 1'836'828'672},
    {"qwen1.5-4b", 3'950'369'280},
    {"qwen1.5-14b", 14'167'290'880},
    {"qwen1.5-72b", 72'287'920'128},
    // Published shapes multiplied out; what cards say of them in words is held by the names of checkpoints.
    {"mistral-large-3-675b", 673'421'089'792},
    {"mistral-small-4-119b", 118'972'826'624},
    {"devstral-2-123b", 125'025'988'608},
    {"hunyuan-0.5b", 539'010'048},
    {"hunyuan-1.8b", 1'791'080'448},
    {"hunyuan-4b", 4'221'757'440},
    {"hunyuan-7b", 7'504'568'320},
    {"hunyuan-80b-a13b", 80'393'183'232},
    {"hy3-295b-a21b", 295'033'528'320},
    {"ernie4.5-300b-a47b", 299'484'160'000},
    {"trinity-nano-6b", 6'119'996'416},
    {"trinity-mini-26b", 26'123'970'560},
    {"trinity-large-400b", 398'635'272'192},
    {"afm-4.5b", 4'619'189'760},
    {"nemotron-nano-12b-v2", 12'310'001'152},
    {"nemotron-h-4b", 4'489'223'040},
    {"nemotron-h-47b", 46'791'554'816},
    {"minitron-4b", 4'190'509'056},
    {"granite4-h-1b", 1'461'538'368},
    {"granite4-h-350m", 340'332'224},
    {"cwm-32b", 32'581'097'472},
    {"glm-z1-rumination-32b", 33'141'749'760},
    {"intellect-1-10b", 10'211'381'248},
    {"apriel-1.5-15b", 14'428'902'400},
};

}  // namespace

TEST_CASE("presets have the published number of parameters") {
  for (const Row& row : kTotals) {
    CAPTURE(std::string(row.name));
    CHECK(plan::model_parameters(preset(row.name)).total == row.total);
  }
}

TEST_CASE("checkpoints hold buffers, prediction modules and scales besides") {
  const auto file_elements = [](const Model& m) {
    return plan::model_parameters(m).with_mtp + plan::mtp_copies(m) + plan::score_bias_elements(m);
  };
  const Model v3 = preset("deepseek-v3");
  CHECK(plan::model_parameters(v3).total + 58LL * 256 == 671'026'419'200);
  CHECK(file_elements(v3) == 684'489'845'504);
  CHECK(plan::fp8_scales(v3) == 41'540'496);
  CHECK(file_elements(v3) + plan::fp8_scales(v3) == 684'531'386'000);
  CHECK(file_elements(preset("deepseek-v3.2")) == 685'355'329'792);
  const Model k2 = preset("kimi-k2");
  CHECK(file_elements(k2) == 1'026'408'232'448);
  CHECK(plan::fp8_scales(k2) == 62'495'192);
  CHECK(file_elements(preset("glm-4.5")) == 358'337'791'296);
  CHECK(file_elements(preset("glm-4.6")) == 356'785'898'816);
  CHECK(file_elements(preset("glm-4.5-air")) == 110'468'824'832);
  const Model air = preset("glm-4.5-air");
  CHECK(plan::model_parameters(air).total + 45LL * 128 == 106'852'251'264);
  CHECK(file_elements(preset("glm-5")) == 753'864'139'008);
  const Model m2 = preset("minimax-m2");
  CHECK(file_elements(m2) == 228'689'764'864);
  CHECK(plan::fp8_scales(m2) == 13'880'064);
  CHECK(file_elements(m2) + plan::fp8_scales(m2) == 228'703'644'928);
  CHECK(plan::model_parameters(preset("qwen3-next-80b-a3b")).with_mtp == 81'324'862'720);
  CHECK(file_elements(preset("k-exaone-236b-a23b")) == 237'099'669'632);
  const Model small = preset("qwen3.5-0.8b");
  CHECK(plan::model_parameters(small).with_mtp + small.extra_parameters == 873'438'784);
  const Model two = preset("qwen3.5-2b");
  CHECK(plan::model_parameters(two).with_mtp + two.extra_parameters == 2'274'069'824);
  const Model super = preset("nemotron3-super-120b-a12b");
  CHECK(file_elements(super) == 123'611'033'088);
  CHECK(plan::model_parameters(super).with_mtp == 123'611'012'096);
  const Model gemma = preset("gemma3-27b");
  CHECK(plan::model_parameters(gemma).total + gemma.extra_parameters == 27'432'406'640);
  const Model gemma4 = preset("gemma3-4b");
  CHECK(plan::model_parameters(gemma4).total + gemma4.extra_parameters == 4'300'079'472);
  const Model gemma12 = preset("gemma3-12b");
  CHECK(plan::model_parameters(gemma12).total + gemma12.extra_parameters == 12'187'325'040);
  const Model scout = preset("llama4-scout");
  CHECK(plan::model_parameters(scout).total + scout.extra_parameters == 108'641'793'536);
  const Model maverick = preset("llama4-maverick");
  CHECK(plan::model_parameters(maverick).total + maverick.extra_parameters == 401'583'781'376);
}

TEST_CASE("a token of a mixture touches a part of it") {
  CHECK(plan::model_parameters(preset("mixtral-8x7b")).active == 12'879'925'248);
  const ModelParameters v3 = plan::model_parameters(preset("deepseek-v3"));
  CHECK(v3.matmul == 36'624'596'992);
  CHECK(static_cast<double>(v3.active) / 1e9 == doctest::Approx(37.55).epsilon(0.0005));
  const ModelParameters dense = plan::model_parameters(preset("llama3-8b"));
  CHECK(dense.active == dense.total);
}

// What PEFT's print_trainable_parameters() says where every linear carries an adapter: the 159,907,840 of QLoRA's Llama
// 2 7B (arXiv:2305.14314, rank 64), and those of well-known notebooks.
TEST_CASE("adapters have the parameters that PEFT prints") {
  constexpr struct {
    const char* name;
    std::int64_t rank, trainable;
  } kRows[] = {{"llama2-7b", 64, 159'907'840}, {"llama3-8b", 16, 41'943'040},  {"mistral-7b", 8, 20'971'520},
               {"gemma-7b", 16, 50'003'968},   {"qwen2.5-7b", 16, 40'370'176}, {"llama3.2-1b", 16, 11'272'192}};
  plan::Training training{.task = plan::Task::Lora};
  training.stack.fused_qkv = training.stack.fused_gate = false;
  for (const auto& row : kRows) {
    CAPTURE(row.name);
    training.lora.rank = row.rank;
    CHECK(plan::adapter_parameters(preset(row.name), training) == static_cast<double>(row.trainable));
  }
}
