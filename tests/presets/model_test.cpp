#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "presets/model_parts.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

using plan::Model;

namespace {

const std::string kHead = "preset: model/1\nname: m\nhidden: 64\nvocab: 128\n";
const std::string kParts = "attention:\n  heads: 4\n  head_dim: 16\ndense:\n  width: 256\n";

std::string code(const std::string& text) {
  const auto model = plan::read_model(text, "m.yaml");
  return model ? std::string() : model.error().front().code;
}

}  // namespace

TEST_CASE("the order of layers is written short") {
  struct Row {
    const char* text;
    std::size_t layers;
    const char* again;
  };
  constexpr Row kRows[] = {
      {"attention+dense", 1, "attention+dense"},
      {"3 x latent+dense, 58 x latent+moe", 61, "3 x latent+dense, 58 x latent+moe"},
      {"13 x (local+dense, attention+dense)", 26, "13 x (local+dense, attention+dense)"},
      {"12 x (3 x delta+moe, attention+moe)", 48, "12 x (3 x delta+moe, attention+moe)"},
      {"2 x (a, 2 x (b, c))", 10, "2 x (a, b, c, b, c)"},
      {"a, a, a, b", 4, "3 x a, b"},
  };
  for (const Row& row : kRows) {
    CAPTURE(std::string(row.text));
    const plan::LayerList list = plan::parse_layers(row.text);
    CHECK(list.problem.empty());
    CHECK(list.layers.size() == row.layers);
    CHECK(plan::format_layers(list.layers) == row.again);
    CHECK(plan::parse_layers(row.again).layers == list.layers);
  }
}

TEST_CASE("what is no list of layers is refused") {
  for (const char* text : {"", "3 attention", "3 x", "0 x a", "-1 x a", "a,", "(a", "a)", "a b", "99999999999 x a",
                           "10000 x (a, b)", "5000 x (2000 x a)", "((((((a))))))", "3 x 4 x a", "a+", "+a", "a++b"}) {
    CAPTURE(std::string(text));
    const plan::LayerList list = plan::parse_layers(text);
    if (list.problem.empty()) CHECK_FALSE(code(kHead + kParts + "layers: " + text + "\n").empty());
  }
}

TEST_CASE("mistakes in a model file") {
  CHECK(code(kHead + kParts + "layers: 2 x attention+dense\n") == "");
  CHECK(code(kHead + kParts + "layers: 2 x attention+moe\n") == "unknown_part");
  CHECK(code(kHead + kParts + "layers: 2 x dense+dense\n") == "bad_value");
  CHECK(code(kHead + kParts + "layers: 2 x attention\n") == "unused_part");
  CHECK(code(kHead + kParts + "layers: 2 xattention\n") == "bad_value");
  CHECK(code(kHead + kParts) == "missing_key");
  CHECK(code(kHead + kParts + "layers: 2 x attention+dense\nseq: 4096\n") == "missing_unit");
  CHECK(code(kHead + kParts + "layers: 2 x attention+dense\nseq: 4096 sequences\n") == "bad_value");
  CHECK(code(kHead + kParts + "layers: 2 x attention+dense\ndropout: 1.5\n") == "out_of_range");
  CHECK(code("preset: model/1\nname: m\nhidden: 1e30\nvocab: 128\n" + kParts + "layers: attention+dense\n") ==
        "out_of_range");
  CHECK(code("preset: model/1\nname: m\nhidden: 1000000\nvocab: 100000000\n" + kParts +
             "layers: 2000 x attention+dense\n") == "");
  CHECK(code(kHead + kParts + "layers: 2001 x attention+dense\n") == "bad_value");
  CHECK(code("preset: model/1\nname: m\nhidden: 1000000\nvocab: 128\nattention:\n  heads: 100000\n  head_dim: 100000\n"
             "layers: 2000 x attention\n") == "absurd_model");
  CHECK(code(kHead + "attention:\n  heads: 4\n  kv_heads: 3\n  head_dim: 16\nlayers: attention\n") == "absurd_model");
  CHECK(code(kHead + "moe:\n  experts: 4\n  top_k: 5\n  expert_width: 16\nlayers: moe\n") == "absurd_model");
  CHECK(code(kHead + "attention:\n  heads: -4\n  head_dim: 16\nlayers: attention\n") == "out_of_range");
  CHECK(code("preset: model/1\nname: two words\nhidden: 64\nvocab: 128\n" + kParts + "layers: attention+dense\n") ==
        "bad_value");
}

TEST_CASE("one is a number that every count of a model file takes, and less than none is not") {
  const std::regex number("(^| +|\\{|, )([a-z_]+): ([0-9]+)(?=\\s*($|,|\\}))");
  std::map<std::string, int> tried;
  for (const plan::PresetEntry& entry : plan::list_presets(plan::PresetKind::Model, {})) {
    std::istringstream lines(entry.text);
    std::size_t at = 0;
    for (std::string line; std::getline(lines, line); at += line.size() + 1) {
      std::smatch found;
      const std::string stated = line.substr(0, line.find('#'));
      if (!std::regex_search(stated, found, number) || ++tried[found[2]] > 3) continue;
      const std::string key = found[2];
      const auto out_of_range = [&](const std::string& value) {
        std::string text = entry.text;
        text.replace(at + static_cast<std::size_t>(found.position(3)), static_cast<std::size_t>(found.length(3)),
                     value);
        const auto model = plan::read_model(text, "m.yaml");
        for (const plan::Error& error : model ? plan::Errors{} : model.error())
          if (error.code == "out_of_range" && error.message.find(key) != std::string::npos) return true;
        return false;
      };
      CAPTURE(entry.name);
      CAPTURE(line);
      CHECK_FALSE(out_of_range("1"));
      CHECK(out_of_range("-1"));
    }
  }
  CHECK(tried.size() >= 20);
}

TEST_CASE("a section that only its variants use is used") {
  const std::string variant = "variants:\n  local:\n    of: attention\n    window: 8 tokens\n";
  CHECK(code(kHead + kParts + variant + "layers: 2 x local+dense\n") == "");
  CHECK(code(kHead + kParts + variant + "layers: 2 x attention+dense\n") == "unused_part");
  CHECK(code(kHead + kParts + "variants:\n  dense:\n    of: attention\n    window: 8 tokens\nlayers: dense\n") ==
        "bad_value");
  CHECK(code(kHead + kParts + "variants:\n  local:\n    of: latent\n    window: 8 tokens\nlayers: local+dense\n") ==
        "bad_value");
}

TEST_CASE("a suggestion for a misspelt section") {
  const auto model = plan::read_model(kHead + kParts + "layers: 2 x atention+dense\n", "m.yaml");
  REQUIRE_FALSE(model.has_value());
  CHECK(model.error().front().message == "no section `atention` in this file");
  CHECK(model.error().front().help.front() == "a section with a similar name exists: `attention`");
  CHECK(model.error().front().place.line == 10);
}

TEST_CASE("variants take over what they do not state, and prediction modules may have kinds of their own") {
  const auto model = plan::read_model(
      kHead + kParts +
          "moe:\n  experts: 4\n  top_k: 2\n  expert_width: 32\n"
          "variants:\n  local:\n    of: attention\n    window: 16 tokens\n"
          "layers: 2 x (local+dense, attention+dense)\nmtp:\n  depth: 2\n  passes: 3\n  layers: attention+moe\n",
      "m.yaml");
  REQUIRE(model.has_value());
  REQUIRE(model->kinds.size() == 3);
  CHECK(model->layers == std::vector<int>{0, 1, 0, 1});
  CHECK(model->kinds[0].attention.window == 16);
  CHECK(model->kinds[0].attention.heads == 4);
  CHECK(model->kinds[1].attention.window == 0);
  CHECK(model->mtp.kinds == std::vector<int>{2});
  CHECK(model->mtp.runs() == 6);
  CHECK(*plan::read_model(plan::write_model(*model), "again") == *model);
}

TEST_CASE("a mistake of the whole model stands at the key whose number it names, and an unused part at its section") {
  const std::string mixture = "moe:\n  experts: 4\n  top_k: 9\n  expert_width: 32\n";
  struct Row {
    std::string text, key;
  };
  const std::string layers = "layers: 2 x attention+dense\n";
  for (const Row& row :
       {Row{"attention:\n  heads: 4\n  kv_heads: 3\n  head_dim: 16\ndense:\n  width: 256\n" + layers, "kv_heads: 3"},
        Row{kParts + mixture + "layers: attention+dense, attention+moe\n", "top_k: 9"},
        Row{"attention:\n  heads: 8\n  kv_heads: 4\n  head_dim: 9\n" + mixture + "layers: attention+moe\n", "top_k: 9"},
        Row{kParts + mixture + layers, "moe:"}, Row{kParts + "layers: 2 x attention\n", "dense:"},
        Row{kParts + "variants:\n  local:\n    of: attention\n    window: 8 tokens\n" + layers, "local:"}}) {
    const std::string text = kHead + row.text;
    CAPTURE(text);
    const auto model = plan::read_model(text, "m.yaml");
    REQUIRE_FALSE(model.has_value());
    REQUIRE(model.error().size() == 1);
    const auto before = text.substr(0, text.find(row.key));
    CHECK(model.error().front().place.line == 1 + std::count(before.begin(), before.end(), '\n'));
  }
}

TEST_CASE("a file without its first line is one mistake, whatever else it holds") {
  for (const std::string text :
       {"gpus: 8\nmodel: llama3-8b\n", "name: m\nhiden: 64\n", "limits:\n  mfu: at least 40 %\n",
        "model: x\njobs:\n  - name: a\n", "budget: 1\nlimits: {}\n"}) {
    CAPTURE(text);
    const auto model = plan::read_model(text, "m.yaml");
    REQUIRE_FALSE(model.has_value());
    CHECK(model.error().size() == 1);
    const bool budget = text.find("limits") != std::string::npos || text.find("jobs") != std::string::npos;
    CHECK((model.error().front().help.front().find("plan check --budget") != std::string::npos) == budget);
  }
}

TEST_CASE("counts with a letter are proposed in full, and what is proposed is read") {
  const std::string layers = "layers: 2 x attention+dense\n";
  struct Row {
    const char *written, *meant;
  };
  for (const Row& row : {Row{"131k tokens", "131072 tokens"}, Row{"8k tokens", "8192 tokens"}, Row{"8K", "8192 tokens"},
                         Row{"1M tokens", "1048576 tokens"}, Row{"32k", "32768 tokens"}}) {
    const auto model = plan::read_model(kHead + kParts + layers + "seq: " + row.written + "\n", "m.yaml");
    CAPTURE(std::string(row.written));
    REQUIRE_FALSE(model.has_value());
    REQUIRE(model.error().front().help.size() == 1);
    CHECK(model.error().front().help.front().starts_with("write `" + std::string(row.meant) + "`"));
    CHECK(code(kHead + kParts + layers + "seq: " + row.meant + "\n").empty());
  }
}
