// One number of a launch file edited, in every tool's words: the job changes, or is refused, or the number is named as
// not used, and what changed has its place on the line of the edit. A change's cause in `plan check` is that place.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <regex>

#include "cli/launch/launch.hpp"
#include "samples.hpp"

namespace plan {

using namespace launching;

namespace {

/// The places of values that differ between two jobs, of the second. A model has many numbers and one place, that of
/// its first; so have GPUs, that of the nodes.
std::vector<std::string> changed_places(const LaunchJob& before, const LaunchJob& after) {
  std::vector<std::string> out;
  for (const Input& now : after.inputs)
    for (const Input& then : before.inputs)
      if (then.key == now.key && then.value != now.value && now.origin == Origin::File && now.key != "model")
        out.push_back(now.where);
  return out;
}

}  // namespace

TEST_CASE("an edited number changes the job, is refused or is named, and its line is the place of what changed") {
  static const std::regex kNumber("(^|[^\\w.$\"/-])([1-9][0-9]*)(?![\\w./-])");
  int placed = 0;
  for (const Sample& sample : kSamples) {
    CAPTURE(std::string(sample.name));
    const LaunchContext context{.model = {}, .gpus = sample.gpus, .gpus_per_node = 8, .arguments = {}};
    const LaunchJob before = job_of(sample.name, sample.text, context);
    const std::vector<std::string> lines = lines_of(sample.text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::smatch found;
      const auto has = [&](const char* word) { return lines[i].find(word) != std::string::npos; };
      if (lines[i].starts_with("#") || has("CONNECTIONS") || !std::regex_search(lines[i], found, kNumber)) continue;
      // What multiplies a number that has its place elsewhere.
      const bool each = has("NPROC_PER_NODE") || has("nproc") || has("gpus_per_node") || has("num_nodes: 1") ||
                        has("response_length") || has("rollout.n");
      for (const int factor : {2, 4}) {
        std::string text;
        for (std::size_t k = 0; k < lines.size(); ++k)
          text += (k != i ? lines[k]
                          : found.prefix().str() + found[1].str() + std::to_string(std::stoll(found[2]) * factor) +
                                found.suffix().str()) +
                  "\n";
        CAPTURE(lines[i]);
        const Files files;
        const Result<LaunchJob> after = files.read(sample.name, text, context);
        if (!after) {
          const std::string& error = after.error().front().message;
          CHECK_MESSAGE(error.find("internal") == std::string::npos, error);
          continue;
        }
        CHECK(said(*after) != said(before));
        const std::vector<std::string> places = changed_places(before, *after);
        if (places.empty() || each) continue;
        const std::string line = ":" + std::to_string(i + 1);
        CHECK_MESSAGE(
            std::any_of(places.begin(), places.end(), [&](const std::string& where) { return where.ends_with(line); }),
            fmt::format("{} of {} places, first {}", line, places.size(), places.front()));
        ++placed;
      }
    }
  }
  CHECK(placed >= 100);
}

}  // namespace plan
