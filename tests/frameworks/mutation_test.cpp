// Files with random damage: each is read or refused, never more than that. Run under sanitizers in a development build.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

#include "cli/launch/formats.hpp"
#include "random_plan.hpp"

using namespace plan;

namespace {

/// One change of the kinds that editors, merges and wrong scripts make.
std::string damaged(std::mt19937& random, std::string text) {
  const std::size_t at = random() % text.size(), length = 1 + random() % 12;
  switch (random() % 6) {
    case 0: return text.erase(at, length);
    case 1: return text.insert(at, text.substr(random() % text.size(), length * 4));
    case 2: return text.replace(at, 1, 1, static_cast<char>(random() % 256));
    case 3: return text.substr(0, at);
    case 4: return text.insert(at, std::string(length * 40, "[{(\"-9"[random() % 6]));
    default: break;
  }
  const std::size_t digit = text.find_first_of("0123456789", at);  // a number out of every range
  if (digit == std::string::npos) return text;
  const char* const numbers[] = {"0", "-7", "16777216", "99999999999999999999", "1e308", "nan", "3.5"};
  return text.replace(digit, text.find_first_not_of("0123456789", digit) - digit, numbers[random() % 7]);
}

/// What reads the files of a format: itself, or whoever recognises them.
const LaunchFormat* reader_of(const LaunchFormat& format, const std::vector<LaunchSource>& sources) {
  if (format.read != nullptr) return &format;
  for (const LaunchFormat& other : launch_formats())
    if (other.read != nullptr && std::any_of(sources.begin(), sources.end(), other.recognise)) return &other;
  return nullptr;
}

}  // namespace

TEST_CASE("damaged files are read or refused with a message") {
  std::mt19937 random(99);
  int read = 0, refused = 0;
  for (const LaunchFormat& format : launch_formats()) {
    if (format.framework == Framework::Megatron || format.write == nullptr) continue;
    for (int plans = 0; plans < 12; ++plans) {
      Plan plan = oracle::random_plan(random, format.framework);
      if (plans % 2 == 1) plan.problem.training.task = Task::FullFinetune;  // some tools train no model from nothing
      const Result<std::vector<LaunchFile>> files = format.write(plan, EmitOptions{});
      if (!files) continue;
      for (int i = 0; i < 60; ++i) {
        std::vector<LaunchSource> sources;
        for (const LaunchFile& file : *files)
          if (!file.executable) sources.push_back({file.name, file.text});
        LaunchSource& victim = sources[random() % sources.size()];
        for (int changes = 1 + static_cast<int>(random() % 3); changes > 0 && !victim.text.empty(); --changes)
          victim.text = damaged(random, victim.text);
        const LaunchFormat* reader = reader_of(format, sources);
        if (reader == nullptr) continue;
        const Result<LaunchJob> job = reader->read(sources, {});
        if (job) {
          ++read;
          continue;
        }
        ++refused;
        REQUIRE(!job.error().empty());
        CHECK(!job.error().front().message.empty());
      }
    }
  }
  CHECK(read > 300);
  CHECK(refused > 300);
}
