#include "cli/request/words/layout_flag.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "cli/request/words/layout_notation.hpp"
#include "oracle/random_layout.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/choice/nearest.hpp"
#include "planner/rules/complete_layout.hpp"

using namespace plan;

TEST_CASE("axes that the user fixes") {
  const Fixed fixed =
      read_layout("tp8,pp=16,vp8,zero0,mb2,cp-kind=all-gather,schedule=1f1b,recompute=core_attn+mlp,sp").value();
  CHECK(fixed.tp == 8);
  CHECK(fixed.pp == 16);
  CHECK(fixed.vp == 8);
  CHECK(fixed.zero == 0);
  CHECK(fixed.micro_batch == 2);
  CHECK(fixed.cp_kind == CpKind::AllGather);
  CHECK(fixed.schedule == Schedule::OneFOneB);
  CHECK(fixed.recompute == Recompute{RecomputeKind::Selective, kRecomputeCoreAttention | kRecomputeMlp});
  CHECK(fixed.sequence_parallel == true);
  CHECK_FALSE(fixed.dp.has_value());
}

TEST_CASE("degrees as reports print them are read as they are") {
  std::mt19937 random(3);
  for (int round = 0; round < oracle::rounds(300); ++round) {
    Layout layout = oracle::any_values(random);
    layout.stages.clear(), layout.chunk_layers.clear();
    if (layout.cp_kind == CpKind::Hybrid) layout.cp_kind = CpKind::Ring;
    const std::string text = degrees_text(layout);
    CAPTURE(text);
    const Result<Fixed> read = read_layout(text);
    REQUIRE(read);
    CHECK(read->tp == layout.tp);
    CHECK(read->cp.value_or(1) == layout.cp);
    CHECK(read->cp_kind.value_or(layout.cp_kind) == layout.cp_kind);
    CHECK(read->pp == layout.pp);
    CHECK(read->vp.value_or(1) == layout.vp);
    CHECK(read->dp == layout.dp);
    CHECK(read->ep.value_or(1) == layout.ep);
  }
  for (const char* bad : {"8 tp", "tp 8 2", "tp8 2", "tp x 8", "tp=8 8"}) CHECK_FALSE(read_layout(bad));
}

TEST_CASE("words alone name a schedule; layers repeat") {
  CHECK(read_layout("zb-h1,sp=off").value().schedule == Schedule::ZbH1);
  CHECK(read_layout("1f1b").value().schedule == Schedule::OneFOneB);
  CHECK(read_layout("layers=7+2x8+7").value().chunk_layers == std::vector<int>{7, 8, 8, 7});
  const Recompute full{RecomputeKind::Full};
  CHECK(read_layout("stages=2xfull:none@offload3:core_attn+mlp@tp4@zero3").value().stages ==
        std::vector<StageStrategy>{{full},
                                   {full},
                                   {.recompute = {}, .offload = 3},
                                   {{RecomputeKind::Selective, kRecomputeCoreAttention | kRecomputeMlp}, 0, 4, 3}});
  const StageStrategy wide{.tp = 4}, two{.recompute = full, .tp = 2, .layers = 2, .behind = {wide}};
  CHECK(read_layout("stages=2xfull@tp2@layers2~none@tp4:none@tp4").value().stages ==
        std::vector<StageStrategy>{two, two, wide});
  CHECK(read_layout("tp2,stages=full@layers2@cp2~none@cp4@zero3").value().stages->front() ==
        StageStrategy{.recompute = full, .cp = 2, .layers = 2, .behind = {{.zero = 3, .cp = 4}}});
  for (const char* text : {"stages=full~none", "stages=full@layers2~none@layers3", "stages=full@layers2"}) {
    CAPTURE(text);
    CHECK(read_layout(text).error().front().code == "bad_value");
  }
}

TEST_CASE("a layout of more words than there are axes is one mistake, however long") {
  for (const char* word : {"?", "tp8", "x=1", "layers="}) {
    std::string all = word;
    for (int i = 0; i < 50'000; ++i) all.append(i % 2 == 0 ? "," : " ").append(word);
    const Result<Fixed> read = read_layout(all);
    REQUIRE_FALSE(read);
    REQUIRE(read.error().size() == 1);
    CHECK(read.error().front().message.size() < 200);
  }
}

TEST_CASE("a layout as people write it") {
  const Fixed usual = read_layout("tp8,pp2,zero3,mb4,recompute=full").value();
  for (const char* text : {"TP8 PP2 ZeRO-3 mbs4 ac=full", "tp=8, pp=2, FSDP, MB=4, recompute=Full",
                           "tp:8,pp:2,zero:3,micro-batch:4,recompute:full"}) {
    CAPTURE(text);
    CHECK(read_layout(text).value() == usual);
  }
  CHECK(read_layout("ddp").value().zero == 0);
  CHECK(read_layout("cp4,ulysses").value() == read_layout("cp4,cp-kind=ulysses").value());
  CHECK(read_layout("pp4,vpp5").value() == read_layout("pp4,vp5").value());
  CHECK(read_layout("ulysses=4").error().front().help.front() == "write `cp4,cp-kind=ulysses`");
  // A number behind a word that has its value would be read as another of ZeRO's stages.
  for (const char* text :
       {"fsdp2", "fsdp=2", "fsdp8", "FSDP:1", "ddp8", "ddp=2", "dp_shard=8", "dp_replicate=2", "hsdp=4"}) {
    CAPTURE(text);
    const Result<Fixed> layout = read_layout(text);
    REQUIRE_FALSE(layout);
    CHECK(layout.error().front().code == "unknown_axis");
    CHECK(layout.error().front().help.front().find("zero") != std::string::npos);
  }
  CHECK(read_layout("HSDP").error().front().help.front().find("zero3,shard8") != std::string::npos);
}

TEST_CASE("every mistake of a layout at once") {
  const Errors errors = read_layout("tq8,tp-4,zero5,recompute=ful,mb").error();
  REQUIRE(errors.size() == 5);
  CHECK(errors[0].message == "unknown axis `tq8` in `--layout`");
  CHECK(errors[1].message == "`--layout tp` must be at least 1, got `-4`");
  CHECK(errors[2].message == "`--layout zero` must be at most 3, got `5`");
  CHECK(errors[3].help[0] == "the nearest is `full`");
  for (const char* bad : {"", ",", "tp8,tp4", "tp8;pp2", "layers=x", "sp=maybe", "tp1e99", "layers=7+", "stages=",
                          "stages=full:", "stages=full@tp", "stages=full@tp2@tp4", "stages=full@sp", "stages=0xfull"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_layout(bad).has_value());
  }
}

namespace {

Layout random_layout(std::mt19937& random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Layout layout{.tp = 1 << pick(4), .cp = 1 << pick(3), .pp = 1 + pick(16), .vp = 1 + pick(8), .dp = 1 + pick(100)};
  layout.cp_kind = static_cast<CpKind>(pick(3));
  layout.schedule = static_cast<Schedule>(pick(kSchedules));
  layout.zero = pick(4);
  layout.shard = pick(2) * 8;
  layout.micro_batch = 1 + pick(8);
  layout.sequence_parallel = pick(2) == 1;
  if (pick(2) == 1) layout.chunk_layers = {1 + pick(9), 8, 8};
  switch (pick(4)) {
    case 1: layout.recompute = {RecomputeKind::Full, 0, pick(5), 0}; break;
    case 2: layout.recompute = {RecomputeKind::Full, 0, 0, 2 + pick(4)}; break;
    case 3: layout.recompute = {RecomputeKind::Selective, static_cast<std::uint16_t>(1 + pick(127))}; break;
    default: break;
  }
  return layout;
}

}  // namespace

TEST_CASE("a layout printed as a flag reads back") {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    Layout layout = random_layout(random);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    Problem problem;
    if (pick(3) == 0) {
      layout.recompute = {};
      const auto any = [&] {
        StageStrategy own;
        if (pick(2) == 0) own.recompute = {RecomputeKind::Full, 0, pick(3), 0};
        if (pick(4) == 0) own.recompute = {RecomputeKind::Selective, static_cast<std::uint16_t>(1 + pick(127))};
        if (pick(4) == 0) own.offload = 1 + pick(3);
        if (pick(4) == 0) own.tp = 1 << pick(4);
        if (pick(4) == 0) own.cp = 1 << pick(3);
        if (pick(4) == 0) own.zero = pick(4);
        return own;
      };
      for (int stage = 0; stage < layout.pp; ++stage) {
        StageStrategy own = any();
        for (int runs = std::max(0, pick(6) - 3); runs > 0; --runs) {
          (own.behind.empty() ? own : own.behind.back()).layers = 1 + pick(3);
          own.behind.push_back(any());
        }
        layout.stages.push_back(own);
      }
      settle_stages(problem, layout);
    }
    CAPTURE(layout_flag(layout));
    problem.fixed = read_layout(layout_flag(layout)).value();
    CHECK(complete_layout(problem) == layout);
  }
}

TEST_CASE("rows of a table of layouts read the same only where the layouts are the same") {
  std::mt19937 random(5);
  const auto changed = [&](const Layout& layout) {  // one random axis from another layout
    Layout next = layout;
    const Layout from = random_layout(random);
    const auto which = random() % std::tuple_size_v<decltype(kAxes)>;
    std::size_t at = 0;
    each_axis([&](const auto& axis) {
      if (at++ == which) next.*axis.value = from.*axis.value;
    });
    return next;
  };
  const auto row = [](const Layout& best, const Layout& layout) {  // the columns, and what they lack
    std::string text;
    for (const int axis : {layout.tp, layout.cp, layout.pp, layout.vp, layout.dp, layout.ep})
      text += std::to_string(axis) + " ";
    for (const std::string& choice : other_choices(best, layout)) text += choice + " ";
    return text;
  };
  int different = 0;
  for (int round = 0; round < 5000; ++round) {
    const Layout best = random_layout(random);
    Layout one = changed(best), other = changed(one);
    for (Layout* each : {&one, &other}) {
      each->chunk_layers = best.chunk_layers;  // how layers are split follows from the rest
      if (each->cp == 1) each->cp_kind = best.cp_kind;
      if (each->pp == 1 && best.pp == 1) each->schedule = best.schedule;
    }
    CAPTURE(layout_flag(best));
    CAPTURE(layout_flag(one));
    CAPTURE(layout_flag(other));
    CHECK((row(best, one) == row(best, other)) == (one == other));
    different += one == other ? 0 : 1;
  }
  CHECK(different > 2000);
  Layout split = random_layout(random), best = split;
  best.chunk_layers = {9, 8, 7}, split.chunk_layers = {7, 8, 9};
  CHECK(other_choices(best, split) == std::vector<std::string>{"layers 7+8+9"});
}

TEST_CASE("layers that nobody places stand as a launch without a word for them has them") {
  const auto layers = [](int depth, const char* words) {
    Problem problem;
    problem.gpus = 1024;
    problem.model.layers.assign(static_cast<std::size_t>(depth), 0);
    problem.fixed = read_layout(words).value();
    return complete_layout(problem).chunk_layers;
  };
  CHECK(layers(32, "pp4") == std::vector<int>{8, 8, 8, 8});
  CHECK(layers(32, "pp2,vp4") == std::vector<int>(8, 4));
  CHECK(layers(6, "pp4") == std::vector<int>{1, 2, 2, 1});  // embedding and head count as a layer each
  CHECK(layers(32, "pp3").empty());                         // no launch does without a word: balanced by their work
  CHECK(layers(32, "pp3,layers=10+11+11") == std::vector<int>{10, 11, 11});
  CHECK(layers(32, "tp8").empty());
}

TEST_CASE("axes left open are what a plain launch has") {
  Problem problem;
  problem.gpus = 16384;
  problem.fixed = read_layout("tp8,pp16,vp8").value();
  const Layout layout = complete_layout(problem);
  CHECK(layout.dp == 128);
  CHECK(layout.schedule == Schedule::Interleaved);
  CHECK(layout.sequence_parallel);
  CHECK(layout.zero == 1);
}

TEST_CASE("a layout in a notation of papers or other tools is proposed as --layout takes it, with the same degrees") {
  std::mt19937 random(12);
  for (int round = 0; round < 50; ++round) {
    const int t = 1 << random() % 4, p = 1 << random() % 5, d = 1 << random() % 8;
    const std::string meant = fmt::format("tp{},pp{},dp{}", t, p, d);
    for (const std::string& typed :
         {fmt::format("T{}P{}D{}", t, p, d), fmt::format("t={} p={} d={}", t, p, d),
          fmt::format("t{}-p{}-d{}", t, p, d), fmt::format("{}-way TP, {}-way PP, {}-way DP", t, p, d),
          fmt::format("{{\"tp\": {}, \"pp\": {}, \"dp\": {}}}", t, p, d), fmt::format("tp {}; pp {}; dp {}", t, p, d),
          fmt::format("tensor={} pipeline={} data={}", t, p, d), fmt::format("MP{}_PP{}_DP{}", t, p, d),
          fmt::format("tensor_model_parallel_size: {}, pipeline_model_parallel_size: {}, data_parallel_size: {}", t, p,
                      d),
          fmt::format("tp{}xpp{}xdp{}", t, p, d), fmt::format("tp degree {} pp degree {} dp degree {}", t, p, d)}) {
      CAPTURE(typed);
      CHECK(layout_in_words(typed) == meant);
      const auto read = read_layout(typed);
      if (read) {  // its own notation
        CHECK(read->tp == t);
        continue;
      }
      CHECK(read.error().size() == 1);
      CHECK(read.error()[0].help[0] == "write `--layout " + meant + "`");
      CHECK(read_layout(meant).has_value());
    }
    CHECK(layout_in_words(fmt::format("data={},fsdp={},tensor={}", d, p, t)) ==
          fmt::format("tp{},dp{},zero3{}", t, d * p, d > 1 ? fmt::format(",shard{}", p) : ""));
  }
  for (const char* none : {"", "8x4x2", "tp=-1", "tp8.5", "3d", "fsdp2", "tp8 on 4 nodes", "best", "tp8,pp", "dp2,dp4",
                           "tp: -1, pp: 4", "tp-1,pp4", "tp -1 pp 4", "dp8,zero3,shard4,T2", "tp 2, experts 8"})
    CHECK_FALSE_MESSAGE(layout_in_words(none).has_value(), none);
}

namespace {

/// The layout that the first help proposes; empty if it proposes none.
std::string proposed_layout(const std::string& typed) {
  const Result<Fixed> read = read_layout(typed);
  if (read || read.error().front().help.empty()) return {};
  std::string help = read.error().front().help.front();
  for (const std::string start : {"write `--layout ", "write `"})
    if (help.starts_with(start)) return help.substr(start.size(), help.find('`', start.size()) - start.size());
  return {};
}

}  // namespace

TEST_CASE("a slip in one degree is answered with the degree that was meant, or with none") {
  for (const auto& [axis, most] : {std::pair{"tp", 64}, {"pp", 64}, {"cp", 64}, {"vp", 64}, {"mb", 64}, {"zero", 3}})
    for (int n = 1; n <= most; ++n) {
      const std::string meant = fmt::format("{}{}", axis, n);
      for (const std::string& typed :
           {fmt::format("{}={}x", axis, n), fmt::format("{}{}-way", axis, n), fmt::format("{}={}-way", axis, n),
            fmt::format("{}={}gpus", axis, n), fmt::format("{0}={0}{1}", axis, n)}) {
        CAPTURE(typed);
        CHECK(proposed_layout(typed) == meant);
        REQUIRE(read_layout(proposed_layout(typed)));
      }
      for (const std::string between : {"\uff0c", "\u3001", "\u00a0", "\u3000", "\u200b"})
        CHECK(proposed_layout(meant + between + "ep2") == meant + ",ep2");
    }
  CHECK(proposed_layout("tp=\uff34\uff308") == "tp8");
  for (const char* typed : {"zero=stage3", "zero stage 3", "zero=ZeRO-3", "zero=fsdp"})
    CHECK_MESSAGE(proposed_layout(typed) == "zero3", typed);
  for (const char* none : {"zero=0x2", "tp=eight", "pp=?"}) CHECK_MESSAGE(proposed_layout(none).empty(), none);
  CHECK(read_layout("tp=eight").error().front().help.front().find("such as `tp2`") != std::string::npos);
}

TEST_CASE("what is proposed for no axis is none of it") {
  CHECK(proposed_layout("nosp") == "sp=off");
  CHECK(proposed_layout("nofsdp") == "zero0");
  CHECK(proposed_layout("no-zero") == "zero0");
  for (const char* word : {"noddp", "no_ddp", "without_ddp", "disable-ddp"})
    CHECK_MESSAGE(proposed_layout(word).empty(), word);
}

TEST_CASE("a word between blanks is the value of an axis that has none yet, and of no other word") {
  const char* values[] = {"ulysses", "ring", "interleaved", "1f1b", "fsdp", "ddp", "sp"};
  for (const std::string one : values)
    for (const std::string other : values) {
      const std::string typed = "pp2 " + one + " " + other, commas = "pp2," + one + "," + other;
      CAPTURE(typed);
      const Result<Fixed> blanks = read_layout(typed), plain = read_layout(commas);
      CHECK(blanks.has_value() == plain.has_value());
      if (!blanks) CHECK(blanks.error() == plain.error());
    }
  for (const char* typed : {"sp = off", "sp =off", "sp= off", "sp : off", "sp off"})
    CHECK_MESSAGE(read_layout(typed).value().sequence_parallel == false, typed);
  CHECK(read_layout("tp = 8 , pp = 2").value() == read_layout("tp8,pp2").value());
}

TEST_CASE("what cannot be seen is seen in every message about a layout") {
  for (const std::string mark : {"\u200b", "\u2060", "\u202e"})
    for (const std::string& typed : {"tp=8" + mark, "sp=of" + mark, "tq" + mark + "8", "recompute=ful" + mark,
                                     "schedule=1f1b" + mark, "layers=7+" + mark, "stages=full@tp" + mark}) {
      const Result<Fixed> read = read_layout(typed);
      REQUIRE_FALSE(read);
      for (const Error& error : read.error())
        CHECK_MESSAGE(error.message.find(mark) == std::string::npos, error.message);
    }
}
