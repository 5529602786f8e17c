// The screen of a plan, read back number by number as a person reads it, against the JSON of the same command.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "check_files.hpp"
#include "cli/terminal/format.hpp"

using namespace plan;
using checks::Json;

namespace {

const std::vector<std::vector<std::string>> kJobs = {
    {"--model", "8b", "--gpus", "64", "--gpu", "h100-sxm", "--advice", "--price", "2", "--tokens", "1T"},
    {"--model", "70b", "--gpus", "256", "--gpu", "h100-sxm", "--tokens", "15T"},
    {"--model", "mixtral-8x7b", "--gpus", "64", "--gpu", "a100-sxm-80gb", "--advice"},
    {"--model", "8b", "--gpus", "2", "--task", "lora"},
    {"estimate", "--model", "405b", "--gpus", "1024", "--layout", "tp8,pp16,vp8", "--tokens", "1T", "--price", "3"},
    {"estimate", "--model", "8b", "--gpus", "8", "--layout", "tp2,recompute=full"},
    {"--model", "8b", "--gpus", "16xa100-sxm-80gb,16xh100-sxm,link=12.5GB/s", "--global-batch", "64", "--seq", "4096"}};

/// What a job answers on the screen and as JSON, asked once for all cases.
struct Answer {
  std::string screen{};
  Json json{};
};
const Answer& answer(const std::vector<std::string>& job) {
  static std::map<std::vector<std::string>, Answer> known;
  auto found = known.find(job);
  if (found == known.end()) found = known.emplace(job, Answer{checks::run(job).out, checks::run_json(job)}).first;
  return found->second;
}

struct Screen {
  std::vector<std::string> lines{};

  explicit Screen(const std::string& text) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  }
  /// The first line at or behind `from` that has these words; the number of lines if there is none.
  [[nodiscard]] std::size_t find(const std::string& words, std::size_t from = 0) const {
    while (from < lines.size() && lines[from].find(words) == std::string::npos) ++from;
    return from;
  }
  [[nodiscard]] bool has(const std::string& words) const { return find(words) < lines.size(); }
};

/// All numbers of a line.
std::vector<double> numbers_of(const std::string& line) {
  std::vector<double> out;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] < '0' || line[i] > '9') {
      ++i;
      continue;
    }
    std::size_t end = 0;
    out.push_back(std::stod(line.substr(i), &end));
    i += end;
  }
  return out;
}

double gib_of(const Json& bytes) { return bytes.get<double>() / (1 << 30); }

/// Rows of stages until an empty line, of a table whose head stands at `at`.
void check_stages(const Screen& screen, std::size_t at, const Json& stages, int& next) {
  for (std::size_t i = at + 1; i < screen.lines.size() && !screen.lines[i].empty(); ++i) {
    std::istringstream words(screen.lines[i]);
    std::string name;
    words >> name;
    if (name.find_first_not_of("0123456789-") != std::string::npos) break;
    CAPTURE(screen.lines[i]);
    const std::size_t dash = name.find('-');
    const int first = std::stoi(name), last = dash == std::string::npos ? first : std::stoi(name.substr(dash + 1));
    CHECK(first == next);
    next = last + 1;
    double shown[6] = {};
    for (double& value : shown) words >> value;
    CHECK(shown[0] + shown[1] + shown[2] + shown[3] + shown[4] == doctest::Approx(shown[5]));
    const char* keys[] = {"weights_bytes", "grads_bytes", "optimizer_bytes", "activations_bytes"};
    // Stages that share a row are alike, or folded into the fullest of them where there are too many rows.
    const Json* fullest = &stages[static_cast<std::size_t>(first)];
    for (int stage = first; stage <= last; ++stage)
      if (const Json& one = stages[static_cast<std::size_t>(stage)];
          one["total_bytes"].get<double>() > (*fullest)["total_bytes"].get<double>())
        fullest = &one;
    CHECK(std::abs(shown[5] - gib_of((*fullest)["total_bytes"])) < 0.06);
    if (first == last)
      for (int k = 0; k < 4; ++k) CHECK(std::abs(shown[k] - gib_of((*fullest)[keys[k]])) < 0.11);
  }
}

}  // namespace

TEST_CASE("step time, throughput, utilisation and memory of the screen are those of the JSON, with their intervals") {
  for (const std::vector<std::string>& job : kJobs) {
    const Screen screen(answer(job).screen);
    const Json &json = answer(job).json, &best = json["best"], &memory = best["memory"];
    CAPTURE(job[1]);
    const std::size_t at = screen.find("  step time  ");
    REQUIRE(at < screen.lines.size());
    const std::string& line = screen.lines[at];
    CAPTURE(line);
    const double step = best["step_time_s"], low = best["step_time_low_s"], high = best["step_time_high_s"];
    const double factor = line.find(" ms") != std::string::npos ? 1e3 : 1;
    const std::vector<double> shown = numbers_of(line);
    CHECK(shown[0] == doctest::Approx(step * factor).epsilon(0.006));
    if (line.find(" to ") != std::string::npos) {
      CHECK(shown[1] == doctest::Approx(low * factor).epsilon(0.006));
      CHECK(shown[2] == doctest::Approx(high * factor).epsilon(0.006));
    } else {
      CHECK(std::abs(shown[1] - 100 * std::max(1 - low / step, high / step - 1)) <= 0.51);
    }
    CHECK(line.find(fmt::format("throughput  {} tokens/s", count_text(best["tokens_per_s"]))) != std::string::npos);
    CHECK(screen.has(percent(best["mfu_ratio"]["model_causal"])));
    const std::size_t where = screen.find("  memory     ");
    REQUIRE(where < screen.lines.size());
    const std::vector<double> held = numbers_of(screen.lines[where]);
    const double peak = gib_of(memory["peak_bytes"]), capacity = gib_of(memory["capacity_bytes"]);
    REQUIRE(held.size() >= 3);
    CHECK(std::abs(held[0] - peak) <= 0.051);
    CHECK(std::abs(held[1] - capacity) <= 0.051);
    CHECK(std::abs(held[2] - 100 * peak / capacity) <= 0.51);
    if (held.size() >= 5) {
      CHECK(std::abs(held[3] - gib_of(memory["peak_low_bytes"])) <= 0.051);
      CHECK(std::abs(held[4] - gib_of(memory["peak_high_bytes"])) <= 0.051);
    }
    const Json& layout = best["layout"];
    if (layout["tp"].is_number())
      CHECK(screen.has(fmt::format("tp {}   cp {}", layout["tp"].get<int>(), layout["cp"].get<int>())));
    if (json.contains("run")) {
      const Json& run = json["run"];
      const std::size_t whole = screen.find("  whole run  ");
      REQUIRE(whole < screen.lines.size());
      const std::string& text = screen.lines[whole];
      CHECK(text.find(fmt::format("in {:.1f} days", run["time_s"].get<double>() / 86400)) != std::string::npos);
      CHECK(text.find(count_text(run["gpu_hours"]) + " GPU-hours") != std::string::npos);
      CHECK((text.find(" USD") != std::string::npos) == run.contains("cost_usd"));
      if (run.contains("cost_usd")) CHECK(text.find(count_text(run["cost_usd"]) + " USD") != std::string::npos);
    }
  }
}

TEST_CASE("the screen's tables of stages and of terms are those of the JSON, and add up") {
  for (const std::vector<std::string>& job : kJobs) {
    CAPTURE(job[1]);
    const Screen screen(answer(job).screen);
    const Json& best = answer(job).json["best"];
    int next = 0;
    for (std::size_t at = screen.find("weights  grads"); at < screen.lines.size();
         at = screen.find("weights  grads", at + 1))
      check_stages(screen, at, best["memory"]["stages"], next);
    CHECK(next == best["layout"]["pp"].get<int>());
    const std::size_t title = screen.find("Step time, ");
    REQUIRE(title < screen.lines.size());
    const bool short_step = screen.lines[title].find("milliseconds") != std::string::npos;
    const double factor = short_step ? 1e3 : 1, step = best["step_time_s"];
    double sum = 0, shares = 0, before = 1e300;
    for (std::size_t i = title + 1; i < screen.lines.size() && !screen.lines[i].empty(); ++i) {
      std::istringstream words(screen.lines[i].substr(14));
      const std::string name = screen.lines[i].substr(2, screen.lines[i].find("  ", 3) - 2);
      double shown = 0, share = 0;
      words >> shown >> share;
      sum += shown, shares += share;
      if (name == "others") continue;
      CAPTURE(name);
      std::string key = name.substr(0, name.find(' '));
      if (key == "stragglers") key = "straggler";
      const double seconds = best["terms_s"][key];
      CHECK(std::abs(shown - seconds * factor) <= 0.011 * std::max(1.0, step * factor));
      CHECK(std::abs(share - 100 * seconds / step) <= 1);
      CHECK(seconds <= before);
      before = seconds;
    }
    CHECK(shares == doctest::Approx(100));
    CHECK(sum == doctest::Approx(step * factor).epsilon(0.006));
  }
}

TEST_CASE("what was searched, what is beside it and what would help has the numbers of the JSON") {
  int advised = 0, searched = 0;
  for (const std::vector<std::string>& job : kJobs) {
    CAPTURE(job[1]);
    const Screen screen(answer(job).screen);
    const Json &json = answer(job).json, &best = json["best"];
    if (const Json& search = json["search"];
        search["considered"].get<std::int64_t>() > 1 && screen.has("legal layouts")) {
      const auto legal = search["legal"].get<double>(), fit = search["fit"].get<double>(),
                 pruned = search["pruned"].get<double>();
      CHECK(screen.has(fmt::format("Of {} legal layouts {} fit, {} do not, {} are proven worse", count_text(legal),
                                   count_text(fit), count_text(legal - fit - pruned), count_text(pruned))));
      ++searched;
    }
    std::size_t at = screen.find("Other ideas");
    for (const Json& runner : json["runners_up"]) {
      if (++at >= screen.lines.size() || screen.lines[at].empty()) break;
      CAPTURE(screen.lines[at]);
      std::istringstream words(screen.lines[at]);
      std::size_t rank = 0;
      words >> rank;
      CHECK(json["runners_up"][rank - 2] == runner);
      CHECK(screen.lines[at].find(gib(Bytes(runner["memory"]["peak_bytes"].get<std::int64_t>()))) != std::string::npos);
      const TimeScale scale = time_scale(Seconds(best["step_time_s"].get<double>()));
      const double shown = runner["step_time_s"].get<double>() * scale.factor;
      CHECK(screen.lines[at].find(fmt::format("{:.{}f} {}", shown, scale.decimals, scale.unit)) != std::string::npos);
    }
    if (!json.contains("advice") || json["advice"].empty()) continue;
    at = screen.find("One change at a time");
    REQUIRE(at < screen.lines.size());
    for (const Json& one : json["advice"]) {
      const std::string change = one["change"];
      const double faster = one["tokens_per_s_ratio"];
      CAPTURE(change);
      std::size_t row = screen.find(change.substr(0, 30), at);
      REQUIRE(row < screen.lines.size());
      while (row < screen.lines.size() && screen.lines[row].find(signed_percent(faster)) == std::string::npos) ++row;
      REQUIRE(row < screen.lines.size());
      if (one.contains("usd_per_token_ratio"))
        CHECK(screen.lines[row].ends_with(signed_percent(one["usd_per_token_ratio"].get<double>())));
      CHECK(screen.lines[row + 1].find(fmt::format("tp {} ", one["layout"]["tp"].get<int>())) != std::string::npos);
      const double base = (json.contains("fastest") ? json["fastest"] : best)["tokens_per_s"];
      CHECK(one["tokens_per_s"].get<double>() / base - 1 == doctest::Approx(faster).epsilon(1e-6));
      ++advised;
    }
  }
  CHECK(searched >= 3);
  CHECK(advised >= 2);
}

TEST_CASE("each kind of GPU of a job has its own line, with the numbers of the JSON") {
  const std::vector<std::string>& job = kJobs.back();
  const Screen screen(answer(job).screen);
  const Json &json = answer(job).json, &best = json["best"];
  const std::size_t title = screen.find("Pools");
  REQUIRE(title < screen.lines.size());
  REQUIRE(best["pools"].size() == 2);
  const TimeScale scale = time_scale(Seconds(best["step_time_s"].get<double>()));
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& pool = best["pools"][i];
    const std::string& line = screen.lines[title + 2 + i];
    CAPTURE(line);
    const int first = pool["first_stage"], stages = pool["layout"]["pp"];
    for (const std::string& part :
         {fmt::format("{} x {}", pool["gpus"].get<int>(), pool["gpu"].get<std::string>()),
          stages > 1 ? fmt::format(" {}-{} ", first, first + stages - 1) : fmt::format(" {} ", first),
          fmt::format("{:.{}f} {}", pool["busy_s"].get<double>() * scale.factor, scale.decimals, scale.unit),
          percent(pool["idle_ratio"].get<double>()),
          fmt::format("{} of {}", gib(Bytes(pool["peak_bytes"].get<std::int64_t>())),
                      gib(Bytes(pool["capacity_bytes"].get<std::int64_t>())))}) {
      CAPTURE(part);
      CHECK(line.find(part) != std::string::npos);
    }
    CHECK((line.ends_with(", over") || line.ends_with(", at risk")) == (pool["fits"] != "yes"));
  }
}
