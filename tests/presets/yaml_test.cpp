#include "presets/yaml.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "temporary_folder.hpp"

namespace yaml = plan::yaml;
using plan::Errors;

namespace {

/// Reads `memory`, `sm_count`, `optimizer`, `tied` and `nested.bandwidth` strictly.
Errors mistakes(const std::string& text) {
  auto document = yaml::parse(text, "f.yaml");
  if (!document) return document.error();
  yaml::Reader reader(*document);
  yaml::Map root = reader.root();
  plan::Bytes memory;
  int sm_count = 0;
  plan::Optimizer optimizer{};
  bool tied = false;
  root.quantity("memory", memory);
  root.integer("sm_count", sm_count, {1, 1000}, yaml::kOptional);
  root.word("optimizer", optimizer, plan::kOptimizerNames, yaml::kOptional);
  root.boolean("tied", tied, yaml::kOptional);
  yaml::Map nested = root.map("nested", yaml::kOptional);
  plan::BytesPerSecond bandwidth;
  nested.quantity("bandwidth", bandwidth);
  nested.finish();
  root.finish();
  return reader.take();
}

std::string yaml_code(const std::string& text) {
  const Errors errors = mistakes(text);
  return errors.empty() ? "" : errors.front().code;
}

}  // namespace

TEST_CASE("a right file has no mistakes") {
  CHECK(mistakes("memory: 80 GiB  # source\nsm_count: 132\ntied: no\noptimizer: adam\nnested: {bandwidth: 1 GB/s}\n")
            .empty());
}

TEST_CASE("every kind of mistake has its code and place") {
  struct Row {
    const char* text;
    const char* code;
    int line, column, length;
  };
  constexpr Row kRows[] = {
      {"memory: 80\n", "missing_unit", 1, 9, 2},
      {"memory: -80 GiB\n", "out_of_range", 1, 9, 7},
      {"memory: .nan\n", "bad_value", 1, 9, 4},
      {"memory: 1e30 GiB\n", "out_of_range", 1, 9, 8},
      {"memory: 80 GiB\nmemroy: 1\n", "unknown_key", 2, 1, 6},
      {"memory: 80 GiB\nmemory: 81 GiB\n", "duplicate_key", 2, 1, 6},
      {"memory: 80 GiB\nsm_count: many\n", "bad_value", 2, 11, 4},
      {"memory: 80 GiB\nsm_count: 1.5\n", "bad_value", 2, 11, 3},
      {"memory: 80 GiB\nsm_count: 1e30\n", "out_of_range", 2, 11, 4},
      {"memory: 80 GiB\nsm_count: 0\n", "out_of_range", 2, 11, 1},
      {"memory: 80 GiB\ntied: maybe\n", "bad_value", 2, 7, 5},
      {"memory: 80 GiB\noptimizer: adma\n", "unknown_word", 2, 12, 4},
      {"memory: 80 GiB\noptimizer: \"adma\"\n", "unknown_word", 2, 12, 6},
      {"memory: 80 GiB\nnested: 3\n", "bad_value", 2, 9, 1},
      {"memory: 80 GiB\nnested: {}\n", "missing_key", 2, 9, 1},
      {"sm_count: 3\n", "missing_key", 1, 1, 1},
      {"memory: [1, 2]\n", "bad_value", 1, 9, 1},
      {"memory:\n", "missing_value", 1, 1, 6},
      {"- 1\n- 2\n", "bad_value", 1, 1, 1},
      {"memory: &a 80 GiB\nx: *a\n", "yaml_refused", 1, 9, 1},
      {"memory: !!str 80 GiB\n", "yaml_refused", 1, 9, 1},
      {"memory: [1, 2\n", "yaml_syntax", 0, 0, 1},
      {"memory: 80 GiB\ntied: }\n", "yaml_syntax", 2, 7, 1},
      {"memory: 80 GiB\nnested: {a: ]}\n", "yaml_syntax", 2, 13, 1},
      {"? [a]\n: 1\n", "bad_key", 1, 3, 1},
  };
  for (const Row& row : kRows) {
    CAPTURE(std::string(row.text));
    const Errors errors = mistakes(row.text);
    REQUIRE_FALSE(errors.empty());
    CHECK(errors.front().code == std::string(row.code));
    if (row.line == 0) continue;
    CHECK(errors.front().place.file == "f.yaml");
    CHECK(errors.front().place.line == row.line);
    CHECK(errors.front().place.column == row.column);
    CHECK(errors.front().place.length == row.length);
  }
}

TEST_CASE("all mistakes of a file come at once, with the line for the caret") {
  const Errors errors = mistakes("memory: 80\nsm_cuont: 3\nnested: {bandwidth: 5}\n");
  REQUIRE(errors.size() == 3);
  CHECK(errors[0].message == "`memory` needs a unit");
  CHECK(errors[0].place.text == "memory: 80");
  CHECK(errors[1].message == "`nested.bandwidth` needs a unit");
  CHECK(errors[2].message == "unknown key `sm_cuont`");
  CHECK(errors[2].help == std::vector<std::string>{"a key with a similar name exists: `sm_count`"});
}

TEST_CASE("a quantity out of range is refused with what makes sense") {
  const auto said = [](const std::string& memory) {
    const Errors errors = mistakes("memory: " + memory + "\n");
    REQUIRE(errors.size() == 1);
    return errors.front().message;
  };
  CHECK(said("0 GiB") == "`memory` is out of range: more than 0 makes sense");
  CHECK(said("-1 GiB") == "`memory` is negative: more than 0 makes sense");
  CHECK(said("1e12 GiB") == "`memory` is out of range: 1e+17 B and less make sense");
}

TEST_CASE("hostile files are refused, not followed") {
  std::string bomb = "a: &a [x]\n";
  for (int c = 'b'; c < 'z'; ++c) {
    const char here = static_cast<char>(c), before = static_cast<char>(c - 1);
    for (const char part : {here, ':', ' ', '&', here, ' ', '[', '*', before, ',', '*', before, ']', '\n'})
      bomb += part;
  }
  CHECK(yaml_code(bomb) == "yaml_refused");
  CHECK(yaml_code(std::string(100000, '[')) == "yaml_refused");
  CHECK(yaml_code(std::string(100000, '{')) == "yaml_refused");
  CHECK(yaml_code("memory: 1 GiB\n---\nmemory: 2 GiB\n") == "yaml_syntax");
  CHECK(yaml_code(std::string("memory\0: 1 GiB", 14)) == "not_text");
  for (const char* mark : {"\xff\xfe", "\xfe\xff"})
    CHECK(yaml_code(std::string(mark) + "memory: 1 GiB\n") == "not_text");
  CHECK(yaml_code(std::string(yaml::kMostBytes + 1, 'a')) == "too_large");
  CHECK_FALSE(yaml_code("").empty());
  CHECK_FALSE(yaml_code("\x80\xff\xfe garbage").empty());
  CHECK_FALSE(yaml_code("memory: \"\xff\"").empty());
}

TEST_CASE("a file in UTF-16 or UTF-32 of either order is one mistake that names its mark, whatever it holds") {
  const plan::TemporaryFolder folder;
  for (const char* text : {"gpu: 1\n", "{\"model_type\": \"llama\"}", "id,model\n", "", "#!/bin/bash\ntorchrun"})
    for (const bool little : {true, false})
      for (const std::size_t size : {2, 4}) {
        const auto wide = [&](const std::string& bytes) {  // of one character, its last byte first
          const std::string zeros(size - bytes.size(), '\0');
          return little ? bytes + zeros : zeros + std::string(bytes.rbegin(), bytes.rend());
        };
        std::string all = wide("\xff\xfe");
        for (const char c : std::string(text)) all += wide(std::string(1, c));
        const plan::Result<std::string> read = yaml::read_text(folder.write("a $(file)", all));
        REQUIRE_FALSE(read.has_value());
        REQUIRE(read.error().size() == 1);
        CHECK(read.error().front().code == "not_text");
        const std::string& help = read.error().front().help.front();
        CHECK(help.find(size == 2 ? "iconv -f UTF-16 " : "iconv -f UTF-32 ") != std::string::npos);
        CHECK(help.find("a $(file)' > FILE") != std::string::npos);
        CHECK(yaml::read_text(folder.write("file", text)).value() == text);
      }
}

TEST_CASE("a hundred mistakes are cut at twenty") {
  std::string text = "memory: 80 GiB\n";
  for (int i = 0; i < 100; ++i) text.append("k").append(std::to_string(i)).append(": 1\n");
  CHECK(mistakes(text).size() == 20);
}

TEST_CASE("unreadable files are one clear error") {
  CHECK(yaml::read_text("/no/such/file.yaml").error().front().message == "no file `/no/such/file.yaml`");
  CHECK(yaml::read_text("/").error().front().message == "`/` is a directory");
}

TEST_CASE("a file of any size is read to its last byte") {
  const plan::TemporaryFolder folder;
  constexpr std::size_t kPiece = 65536;  // what systems hand out at once, and programs ask for
  for (std::size_t pieces = 0; pieces <= 3; ++pieces)
    for (const std::size_t more : {std::size_t{0}, std::size_t{1}, std::size_t{2}, kPiece - 1}) {
      std::string text(pieces * kPiece + more, 'x');
      if (!text.empty()) text.back() = '\n';
      const auto read = yaml::read_text(folder.write("f", text));
      REQUIRE(read.has_value());
      CHECK((*read == text));
    }
}

// YAML 1.1's merge keys, https://yaml.org/type/merge.html: what a map states itself counts, then its bases in their
// order.
TEST_CASE("a map takes from its bases what it lacks, the first base's first, wherever it names them") {
  std::mt19937 random(20261127);
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  for (int trial = 0; trial < 300; ++trial) {
    std::string text;
    std::map<std::string, std::string> bases[3], wanted;
    for (int b = 0; b < 3; ++b) {
      text += "base" + std::to_string(b) + ": &b" + std::to_string(b) + "\n";
      for (char key = 'a'; key < 'f'; ++key)
        if (any(2) == 0 || key == 'a') {
          const std::string value = std::to_string(any(1000));
          bases[b][std::string(1, key)] = value;
          text += "  " + std::string(1, key) + ": " + value + "\n";
        }
    }
    std::vector<std::string> lines;
    for (char key = 'b'; key < 'h'; ++key)
      if (any(3) == 0) {
        wanted[std::string(1, key)] = "own";
        lines.push_back("  " + std::string(1, key) + ": own\n");
      }
    const int first = any(3), second = any(3);
    const bool one = any(2) == 0;
    const std::string list = "[*b" + std::to_string(first) + ", *b" + std::to_string(second) + "]";
    lines.insert(lines.begin() + any(static_cast<int>(lines.size()) + 1),
                 "  <<: " + (one ? "*b" + std::to_string(first) : list) + "\n");
    wanted.insert(bases[first].begin(), bases[first].end());
    if (!one) wanted.insert(bases[second].begin(), bases[second].end());
    text += "map:\n";
    for (const std::string& line : lines) text += line;
    CAPTURE(text);
    const auto document = yaml::parse_with_anchors(text, "f.yaml");
    REQUIRE(document.has_value());
    const yaml::Node& map = document->root.items.back();
    std::map<std::string, std::string> found;
    for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) found[map.items[i].text] = map.items[i + 1].text;
    CHECK(found == wanted);
    CHECK(map.items.size() == 2 * wanted.size());
  }
}
