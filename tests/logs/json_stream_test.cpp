// JSON made at random and written by a library, read back token by token; and cut, nested and broken.
#include "cli/logs/json_stream.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tests/temporary_folder.hpp"

using namespace plan;
using OrderedJson = nlohmann::ordered_json;

namespace {

OrderedJson random_value(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 6 : 4)) {
    case 0: return static_cast<int>(random() % 2000) - 1000;
    case 1: return std::string(random() % 30, 'x') + "\"\\\n{[]},:é";
    case 2: return random() % 2 == 0;
    case 3: return nullptr;
    case 4: {
      OrderedJson list = OrderedJson::array();
      for (auto i = random() % 5; i > 0; --i) list.push_back(random_value(random, depth - 1));
      return list;
    }
    default: {
      OrderedJson object = OrderedJson::object();
      for (std::size_t i = 0, n = random() % 5; i < n; ++i)
        object["k" + std::to_string(i)] = random_value(random, depth - 1);
      return object;
    }
  }
}

}  // namespace

TEST_CASE("values that nobody asks for are skipped whole, and what is asked for is what was written") {
  const TemporaryFolder folder;
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    OrderedJson document = OrderedJson::object();
    double sum = 0;
    std::string words;
    for (int i = 0; i < 20; ++i) {
      document["skip" + std::to_string(i)] = random_value(random, 4);
      const double value = static_cast<double>(random() % 100000) / 64;
      document["n" + std::to_string(i)] = value, sum += value;
      const std::string word(random() % 9, static_cast<char>('a' + i));
      document["t" + std::to_string(i)] = word, words += word;
    }
    const std::string path = folder.write("a.json", document.dump(round % 2 == 0 ? -1 : 2));
    JsonStream in(path);
    double read = 0;
    std::string text;
    const bool whole = in.object([&](std::string_view key) {
      if (key.front() == 'n') {
        double value = 0;
        const bool good = in.number(value);
        read += value;
        return good;
      }
      if (key.front() != 't') return in.skip();
      std::string value;
      const bool good = in.text(value);
      text += value;
      return good;
    });
    CAPTURE(in.error());
    CHECK(whole);
    CHECK(read == sum);
    CHECK(text == words);
  }
}

TEST_CASE("a document that is cut, nested too deeply or broken ends with a place") {
  const TemporaryFolder folder;
  const std::string text = R"({"a": [1, {"b": "c\"d"}, -2.5e3], "e": {"f": [[], {}]}, "g": true})";
  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    JsonStream in(folder.write("a.json", text.substr(0, cut)));
    CHECK_FALSE(in.object([&](std::string_view) { return in.skip(); }));
    CHECK(in.error().find("byte ") == 0);
  }
  for (const std::string& broken :
       {std::string(1000, '['), std::string("]"), std::string("\"abc"), std::string("\"a\\"), std::string()}) {
    JsonStream in(folder.write("a.json", broken));
    CHECK_FALSE(in.skip());
    CHECK_FALSE(in.error().empty());
  }
  JsonStream numbers(folder.write("a.json", "[1e999999, 2]"));
  double value = 0;
  CHECK_FALSE(numbers.array([&] { return numbers.number(value); }));
  JsonStream longest(folder.write("a.json", "\"" + std::string(1 << 20, 'y') + "\""));
  std::string kept;
  CHECK(longest.text(kept, 100));
  CHECK(kept.size() == 100);
}
