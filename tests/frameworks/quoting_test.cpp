// Words of the command line that stand in launch files: whatever they hold, the files have the same keys as with plain
// words, and the words themselves as values.
#include <doctest/doctest.h>

#include <random>

#include "cli/launch/formats.hpp"
#include "cli/launch/start/launcher.hpp"
#include "cli/settings/settings.hpp"
#include "random_plan.hpp"

using namespace plan;

namespace {

const char* const kNasty[] = {
    "a: b {c}",  "x\"\\",       "it's",       "# no comment", "- item",   "&anchor *alias",  "a\nb: c",
    "tab\there", "\x1b[31mred", "$(id) `id`", "%{x}",         "{{ y }}",  "\"]\n[job]\nx=1", "'''",
    "\"\"\"",    "null",        "!!python",   "a\\nb",        " leading", "trailing ",       "\xc3\xa9\xe2\x82\xac",
    "@x",        "x\\",         "a #b"};

EmitOptions options_with(const std::string& launcher, const std::string& word) {
  EmitOptions options;
  options.launcher = launcher;
  options.data_path = word, options.tokenizer = word, options.checkpoint_dir = word, options.image = word;
  return options;
}

Result<Settings> settings_of(const LaunchFile& file) {
  const LaunchSource source{file.name, file.text};
  if (file.name.ends_with(".toml")) return settings_of_toml(source);
  return file.name.ends_with(".json") ? settings_of_json(source) : settings_of_yaml(source);
}

bool is_data(const LaunchFile& file) {
  return file.name.ends_with(".toml") || file.name.ends_with(".json") || file.name.ends_with(".yaml") ||
         file.name.ends_with(".yml");
}

std::string with_word(std::string text, const std::string& plain, const std::string& word) {
  for (std::size_t at = text.find(plain); at != std::string::npos; at = text.find(plain, at + word.size()))
    text.replace(at, plain.size(), word);
  return text;
}

/// Number of values that hold the word.
int compare(const Settings& plain, const Settings& nasty, const std::string& word) {
  int held = 0;
  REQUIRE(plain.all().size() == nasty.all().size());
  for (std::size_t i = 0; i < plain.all().size(); ++i) {
    const Setting &was = plain.all()[i], &is = nasty.all()[i];
    CHECK(was.key == is.key);
    CHECK(with_word(was.value, "PLAIN", word) == is.value);
    REQUIRE(was.items.size() == is.items.size());
    held += was.value.find("PLAIN") != std::string::npos ? 1 : 0;
    for (std::size_t k = 0; k < was.items.size(); ++k) {
      if (was.items[k].find("PLAIN") == std::string::npos) continue;
      // An override, key=value, is read once more: its value is a quoted string.
      const bool same = is.items[k] == with_word(was.items[k], "PLAIN", word) ||
                        is.items[k] == with_word(was.items[k], "PLAIN", string_quoted(word));
      CHECK_MESSAGE(same, is.items[k]);
      ++held;
    }
  }
  return held;
}

}  // namespace

TEST_CASE("a word in a data file is the word that was given, and nothing else") {
  std::mt19937 random(8);
  int held = 0, files_read = 0;
  for (const LaunchFormat& format : launch_formats()) {
    if (format.write == nullptr) continue;
    CAPTURE(format.name);
    int written = 0;
    for (int tries = 0; tries < 200 && written < 3; ++tries) {
      Plan plan = oracle::random_plan(random, format.framework);
      if (tries % 2 == 1) plan.problem.training.task = Task::FullFinetune;  // some tools train no model from nothing
      for (const char* launcher : {"", "k8s"}) {
        const Result<std::vector<LaunchFile>> plain = format.write(plan, options_with(launcher, "PLAIN"));
        if (!plain) continue;
        ++written;
        for (const std::string word : kNasty) {
          CAPTURE(word);
          const Result<std::vector<LaunchFile>> nasty = format.write(plan, options_with(launcher, word));
          REQUIRE(nasty);
          REQUIRE(nasty->size() == plain->size());
          for (std::size_t i = 0; i < plain->size(); ++i) {
            if (!is_data((*plain)[i]) || (*plain)[i].name == "sky.yaml") continue;
            CAPTURE((*plain)[i].name);
            const Result<Settings> before = settings_of((*plain)[i]), after = settings_of((*nasty)[i]);
            REQUIRE(before);
            REQUIRE_MESSAGE(after, (*nasty)[i].text);
            held += compare(*before, *after, word);
            ++files_read;
          }
        }
      }
    }
    // Tools of fine-tuning take few of the layouts that chance draws; tests/cli/adapters_test.cpp has theirs.
    if (format.read != nullptr) CHECK(written > 0);
  }
  CHECK(held > 100);
  CHECK(files_read > 100);
}

TEST_CASE("a quoted string reads back, whatever it holds") {
  std::mt19937 random(9);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text;
    for (int length = static_cast<int>(random() % 12); length > 0; --length)
      text += "ab\"\\'\n\t \x01\x7f{}#:u0"[random() % 17];
    CHECK(string_unquoted(string_quoted(text)) == text);
    CHECK(string_quoted(text).find('\n') == std::string::npos);
  }
  CHECK(string_unquoted("plain") == "plain");
  CHECK(string_unquoted("\"") == "\"");
}
