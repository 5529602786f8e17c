#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "formulas/flops.hpp"
#include "formulas/schedule.hpp"
#include "formulas/textbook/rules_of_thumb.hpp"
#include "formulas/textbook/textbook_activations.hpp"
#include "formulas/textbook/textbook_pipeline.hpp"
#include "formulas/textbook/textbook_size.hpp"
#include "formulas/textbook/textbook_states.hpp"
#include "formulas/textbook/textbook_traffic.hpp"
#include "tests/formulas/models.hpp"

// Every case of tests/published/golden.json. "Exact" is to the last digits of a double.
namespace plan::textbook {
namespace {

using nlohmann::json;

constexpr double kExact = 1e-13;
doctest::Approx exactly(double value) { return doctest::Approx(value).epsilon(kExact); }

const json& golden(const char* key) {
  static const json all = json::parse(std::ifstream(PLAN_SOURCE_DIR "/tests/published/golden.json"));
  return all.at(key);
}

/// One unit of the last digit printed: papers round or cut.
double last_digit(const json& printed) {
  const std::string text = printed.dump();
  const auto point = text.find('.');
  return point == std::string::npos ? 1.0 : std::pow(10.0, -static_cast<double>(text.size() - point - 1));
}

TEST_CASE("golden: the ZeRO paper's table") {
  int rows = 0;
  for (const json& row : golden("zero_table1")) {
    CAPTURE(row.dump());
    const StateInput in{row["params"], row["nd"]};
    const std::string stage = row["stage"];
    const RealBytes states = stage == "os" ? zero1_states(in) : stage == "os_g" ? zero2_states(in) : zero3_states(in);
    const double gigabytes = states / RealBytes(1e9);
    CHECK(gigabytes == exactly(row["exact_GB"]));
    CHECK(std::abs(gigabytes - row["printed_GB"].get<double>()) <= last_digit(row["printed_GB"]));
    ++rows;
  }
  CHECK(rows == 54);
}

TEST_CASE("golden: Megatron's parameters and FLOPs") {
  int rows = 0;
  for (const json& row : golden("megatron21_eq2_eq3")) {
    CAPTURE(row.dump());
    const double layers = row["layers"], hidden = row["hidden"], vocab = row["vocab"], seq = row["seq"];
    const double parameters = megatron_parameters({layers, hidden, vocab, seq});
    CHECK(parameters == exactly(row["params_eq2"]));
    CHECK(std::abs(parameters / 1e9 - row["printed_B"].get<double>()) < 0.06);
    CHECK(gpt_parameters({layers, hidden, vocab, seq}) - parameters == doctest::Approx(2 * hidden).epsilon(1e-3));
    const double flops = flops_gpt_full({row["gbs"], seq, layers, hidden, vocab}).value;
    CHECK(flops == exactly(row["flops_eq3"]));
    const double rate = row["tflops"].get<double>() * 1e12 * row["gpus"].get<double>();
    CHECK(flops / rate == exactly(row["implied_step_s"]));
    ++rows;
  }
  CHECK(rows == 10);
}

struct KorthikantiRow {
  const json& row;
  double number(const char* key) const { return row.at(key).get<double>(); }
  double layers() const { return number("layers"); }
  double hidden() const { return number("hidden"); }
  ActivationInput layer() const { return {2048, number("mbs"), hidden(), number("heads"), number("tp")}; }
  LinearActivationInput linear() const { return {2048, number("mbs"), hidden(), number("tp")}; }
  RealBytes first_stage(RealBytes layer) const {
    const double pp = number("pp"), vp = number("interleave_m");
    return vp > 1 ? activation_interleaved({layer.value, layers(), pp, vp})
                  : activation_first_stage({layer.value, layers()});
  }
};

TEST_CASE("golden: activations of Korthikanti et al.") {
  for (const json& json_row : golden("korthikanti")) {
    const KorthikantiRow in{json_row};
    CAPTURE(json_row["model"].get<std::string>());
    const json& stage = json_row["act_first_stage_GiB"];
    const json& share = json_row["act_pct_of_tp"];
    const RealBytes tp = activation_tp(in.layer());
    const struct {
      const char* key;
      RealBytes bytes;
    } variants[] = {{"none(TP only)", tp},
                    {"seq", activation_sp(in.layer())},
                    {"sel", activation_selective(in.linear())},
                    {"seq+sel", activation_sp_selective(in.linear())},
                    {"full(not partitioned)", activation_full({2048, in.number("mbs"), in.hidden()})}};
    for (const auto& variant : variants) {
      CAPTURE(std::string(variant.key));
      CHECK(in.first_stage(variant.bytes) / RealBytes(kGiB) == exactly(stage.at(variant.key)));
      CHECK(100 * variant.bytes / tp == exactly(share.at(variant.key)));
    }
    const double linear = 12 * in.layers() * in.hidden() * in.hidden();
    const double on_rank = linear / (in.number("tp") * in.number("pp"));
    CHECK(megatron_states({on_rank}) / RealBytes(kGiB) == exactly(json_row["params_opt_GiB_18B_per_param"]));
  }
}

TEST_CASE("golden: utilisation of Korthikanti et al.") {
  for (const json& json_row : golden("korthikanti")) {
    const KorthikantiRow in{json_row};
    CAPTURE(json_row["model"].get<std::string>());
    const GptFlopsInput batch{in.number("gbs"), 2048, in.layers(), in.hidden(), 51200};
    const double model = flops_gpt(batch).value, hardware = flops_gpt_selective_paper(batch).value;
    CHECK(model == exactly(json_row["model_flops_per_iter"]));
    CHECK(hardware == exactly(json_row["hw_flops_selective"]));
    const double gpus = in.number("gpus"), step = in.number("step_s_seqsel"), full = in.number("step_s_full");
    CHECK(100 * mfu({model, gpus, 312e12, step}) == exactly(json_row["mfu_recomputed"]));
    CHECK(100 * mfu({hardware, gpus, 312e12, step}) == exactly(json_row["hfu_recomputed"]));
    CHECK(100 * mfu({model, gpus, 312e12, full}) == exactly(json_row["mfu_full_recomputed"]));
    // The paper's step times have three digits.
    CHECK(std::abs(100 * mfu({model, gpus, 312e12, step}) - in.number("mfu_printed")) < 0.2);
    CHECK(std::abs(100 * mfu({hardware, gpus, 312e12, step}) - in.number("hfu_printed")) < 0.2);
  }
}

TEST_CASE("golden: pipeline bubbles") {
  for (const json& row : golden("pipeline_bubbles")) {
    CAPTURE(row.dump());
    const double p = row["p"], m = row["m"], f = row["TF"], i = row["TB"], w = row["TW"], work = m * (f + i + w);
    const auto check = [&](const std::string& name, double bubble) {
      CAPTURE(std::string(name));
      CHECK(bubble == exactly(row.at(name + "_bubble")));
      CHECK(bubble / (bubble + work) == exactly(row.at(name + "_frac_of_total")));
      CHECK(bubble / work == exactly(row.at(name + "_over_ideal")));
    };
    CHECK(bubble_1f1b({p, f, i + w}).value == exactly(row["1F1B_bubble"]));
    CHECK(bubble_fraction({p, m}) == exactly(row["1F1B_frac_of_total"]));
    CHECK(bubble_ratio({p, m}) == exactly(row["1F1B_over_ideal"]));
    check("ZB-H1", bubble_zb_h1({p, f, i, w}).value);
    check("ZB-H2", bubble_zb_h2({p, f, i, w}).value);
    for (const double v : {2.0, 4.0}) {
      const std::string name = "interleaved_v" + std::to_string(static_cast<int>(v));
      check(name, step_interleaved({p, m, v, f, i + w}).value - work);
      CHECK(bubble_fraction_interleaved({p, m, v}) == exactly(row.at(name + "_frac_of_total")));
      CHECK(bubble_ratio_interleaved({p, m, v}) == exactly(row.at(name + "_over_ideal")));
    }
  }
}

TEST_CASE("golden: micro-batches in flight and DualPipe") {
  for (const json& row : golden("pipeline_bubbles")) {
    CAPTURE(row.dump());
    const double p = row["p"], m = row["m"];
    const int stages = row["p"];
    const std::int64_t batches = row["m"];
    const json& held = row["peak_act_in_MB_units"];
    CHECK(in_flight_1f1b({p, m, 0}) == held["1F1B"]);
    CHECK(in_flight({Schedule::OneFOneB, stages, 1, batches}, 0) == held["1F1B"]);
    CHECK(in_flight({Schedule::ZbH1, stages, 1, batches}, 0) == held["ZB-H1"]);
    CHECK(in_flight_zb_h2({p, m, 0}) == held["ZB-H2"]);
    CHECK(in_flight({Schedule::ZbH2, stages, 1, batches}, 0) == held["ZB-H2"]);

    const json& dual = row["dualpipe"];
    const double f = dual["F"], b = dual["B_full"], w = dual["W"], pair = dual["F_and_B"];
    CHECK(bubble_1f1b({p, f, b}).value == exactly(dual["bubble_1F1B"]));
    CHECK((p - 1) * (f + b - 2 * w) == exactly(dual["bubble_ZB1P"]));
    CHECK(bubble_zb_h1({p, f, b - w, w}).value == exactly(dual["bubble_ZB1P"]));
    CHECK(bubble_dualpipe({p, pair, b, w}).value == exactly(dual["bubble_DualPipe"]));
    CHECK(in_flight_1f1b({p, m, 0}) == dual["act_per_device"]["1F1B"]);
    CHECK(in_flight({Schedule::ZbH1, stages, 1, batches}, 0) == dual["act_per_device"]["ZB1P"]);
    CHECK(in_flight_dualpipe({p}) == dual["act_per_device"]["DualPipe"]);
    CHECK(in_flight({Schedule::DualPipe, stages, 1, batches}, 0) == dual["act_per_device"]["DualPipe"]);
    CHECK(parameter_copies(Schedule::OneFOneB) == dual["param_copies"]["1F1B"]);
    CHECK(parameter_copies(Schedule::ZbH1) == dual["param_copies"]["ZB1P"]);
    CHECK(parameter_copies(Schedule::DualPipe) == dual["param_copies"]["DualPipe"]);
    // DualPipeV folds p stages onto p/2 devices: of each stage one copy, two stages a device, and p + 1
    // activations of such stages, (p + 1)/2 of what the device holds.
    const int devices = dual["devices"]["DualPipeV"];
    CHECK(dual["devices"]["DualPipe"] == stages);
    CHECK(2 * parameter_copies(Schedule::DualPipeV) == dual["param_copies"]["DualPipeV"]);
    CHECK(stages / devices == dual["param_copies"]["DualPipeV"]);
    CHECK(2 * in_flight({Schedule::DualPipeV, devices, 2, batches}, 0) == dual["act_per_device"]["DualPipeV"]);
  }
}

TEST_CASE("golden: Ulysses against Megatron's sequence parallelism") {
  for (const json& row : golden("ulysses_volume")) {
    CAPTURE(row.dump());
    const double ulysses = ulysses_link({row["seq"], row["hidden"], row["P"]});
    const double megatron = megatron_sp_link({row["seq"], row["hidden"]});
    CHECK(ulysses == row["ulysses_elems_per_link_per_layer_fwd"]);
    CHECK(megatron == row["megatron_sp_elems_per_layer_fwd"]);
    CHECK(megatron / ulysses == row["ratio"]);
  }
}

TEST_CASE("golden: ring attention's least block and sequence") {
  for (const json& row : golden("ring_attention_table2")) {
    CAPTURE(row.dump());
    const BlockLimitInput in{row["GBps"].get<double>() * 1e9, row["tflops"].get<double>() * 1e12};
    CHECK(ring_block(in) / 1e3 == exactly(row["block_k_exact"]));
    CHECK(ring_sequence(in) / 1e3 == exactly(row["seq_k_exact"]));
    // The paper prints two digits, and 24.5 where its own equation gives 24.96.
    CHECK(std::abs(ring_block(in) / 1e3 - row["block_k_printed"].get<double>()) < 0.5);
    CHECK(ring_sequence(in) / 1e3 == doctest::Approx(row["seq_k_printed"].get<double>()).epsilon(0.01));
  }
}

TEST_CASE("golden: FLOPs per token in published logs") {
  const json& rows = golden("flops_per_token");
  REQUIRE(rows.size() == 3);
  const Model nanotron =
      fixture::llama({.layers = 28, .hidden = 3072, .heads = 24, .kv_heads = 24, .ffn = 8192, .vocab = 131072});
  const double nano = 3 * model_flops(nanotron, 4096, Mask::Full).total().value;
  CHECK(nano == exactly(rows[0]["model_flops"]));
  CHECK(nano == doctest::Approx(rows[0]["published"].get<double>()).epsilon(1e-5));
  // Hardware FLOPs with every layer recomputed: four forwards of the layers, three of the head.
  const auto recomputed = [](const Model& model, double seq) {
    const ModelFlops flops = model_flops(model, seq, Mask::Full);
    return (4 * flops.layers.total() + 3 * flops.head).value;
  };
  CHECK(recomputed(fixture::gpt(72, 14336, 112, 250880), 2048) == exactly(rows[1]["hw_flops"]));
  CHECK(flops_gpt_full({1, 2048, 72, 14336, 250880}).value / 2048 == exactly(rows[1]["hw_flops"]));
  CHECK(recomputed(fixture::gpt(32, 2560, 32, 51200), 1024) == exactly(rows[2]["hw_flops"]));
  CHECK(flops_gpt_full({1, 1024, 32, 2560, 51200}).value / 1024 == exactly(rows[2]["hw_flops"]));
  for (const int i : {1, 2})
    CHECK(rows[i]["hw_flops"].get<double>() == doctest::Approx(rows[i]["published"].get<double>()).epsilon(2e-4));
}

}  // namespace
}  // namespace plan::textbook
