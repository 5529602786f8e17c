// Pictures on pages are measured: what a bar, a point or a line stands for is read from the picture alone, by its axes
// and its legend, and compared with the numbers.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cli/report/page/page.hpp"
#include "cli/report/page/timeline.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/report/runs/predicted_course.hpp"
#include "page_tags.hpp"
#include "sample_plan.hpp"
#include "scheduled_plans.hpp"

using namespace plan;
using pages::Tag;

namespace {

/// A number as a tick or a title writes it: "0.5", "500 k", "1.5 M".
double value_of(const std::string& text) {
  std::size_t end = 0;
  const double value = std::stod(text, &end);
  const std::string unit = text.substr(std::min(text.find_first_not_of(' ', end), text.size()));
  const char* letters = "kMBT";
  for (int i = 0; i < 4; ++i)
    if (unit.starts_with(letters[i])) return value * std::pow(1e3, i + 1);
  return value;
}

/// An axis as it is drawn: where its ticks stand.
struct Drawn {
  std::vector<std::pair<double, double>> ticks{};  ///< value, place

  /// Where a value stands, by the first and the last tick.
  [[nodiscard]] double place(double value, bool logarithmic) const {
    const auto at = [&](double x) { return logarithmic ? std::log10(x) : x; };
    const std::pair<double, double>&low = ticks.front(), &high = ticks.back();
    return low.second + (high.second - low.second) * (at(value) - at(low.first)) / (at(high.first) - at(low.first));
  }
};

std::pair<Drawn, Drawn> axes_of(const std::vector<Tag>& tags) {
  Drawn x, y;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (tags[i].name != "line" || tags[i].at.at("class") != "axis") continue;
    const Tag& label = tags[i + 1];
    if (tags[i].at.at("x1") == tags[i].at.at("x2"))
      x.ticks.emplace_back(value_of(label.text), tags[i].number("x1"));
    else
      y.ticks.emplace_back(value_of(label.text), tags[i].number("y1"));
  }
  return {x, y};
}

std::vector<Tag> named(const std::vector<Tag>& tags, const std::string& name, const std::string& kind = {}) {
  std::vector<Tag> out;
  for (const Tag& tag : tags)
    if (tag.name == name && (kind.empty() || (tag.at.count("class") > 0 && tag.at.at("class") == kind)))
      out.push_back(tag);
  return out;
}

/// Whether a legend names every colour that its part of a page draws with.
void names_every_colour(const std::vector<Tag>& tags) {
  const std::map<int, std::string> legend = pages::legend_of(tags);
  std::set<std::string> names;
  for (const auto& [colour, name] : legend) names.insert(name);
  CHECK(names.size() == legend.size());
  for (const Tag& tag : tags)
    if (tag.colour() >= 0) CHECK(legend.count(tag.colour()) == 1);
}

std::vector<Plan> drawn_plans() {
  std::vector<Plan> out;
  for (const scheduled::Case& row : scheduled::cases()) out.push_back(scheduled::plan_of(row.model, row.layout));
  out.push_back(scheduled::plan_of("8b", Layout{.tp = 2, .dp = 4}));
  out.push_back(scheduled::plan_of("8b", Layout{.dp = 8}));
  const Plan sample = sample::plan();
  for (Plan& plan : out) plan.runners_up = sample.runners_up;
  out.front().front = {out.front().best, sample.best};
  return out;
}

}  // namespace

TEST_CASE("every point of a picture is where its axes say") {
  std::mt19937 random(21);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int round = 0; round < 400; ++round) {
    Plot plot{.x = {"x < 1", random() % 2 == 0}, .y = {"y", random() % 2 == 0, random() % 2 == 0}, .points = {}};
    if (plot.y.logarithmic) plot.y.from_zero = false;
    const double scale = std::pow(10.0, uniform(-2, 3)), wide = uniform(1.2, 300);
    for (unsigned long i = 0; i < 2 + random() % 8; ++i) {
      const bool label = random() % 2 == 0;
      plot.points.push_back({scale * uniform(1, wide), uniform(1, wide), static_cast<int>(random() % 10),
                             fmt::format("point {}", i), label ? fmt::format("<{}>", i) : "", random() % 3 == 0});
    }
    if (random() % 3 == 0) plot.x_limit = scale * wide * uniform(0.5, 1.5), plot.x_limit_title = "most";
    plot.joined = random() % 2 == 0 ? static_cast<int>(plot.points.size()) - 1 : 0;
    const std::vector<Tag> tags = pages::tags_of(svg_plot(plot));
    const auto [x, y] = axes_of(tags);
    const std::vector<Tag> circles = named(tags, "circle");
    REQUIRE(circles.size() == plot.points.size());
    CHECK(x.ticks.size() <= 7);
    CHECK(y.ticks.size() <= 8);
    const auto right_place = [&](const Drawn& axis, const std::string& at, double value, bool logarithmic) {
      if (axis.ticks.size() > 1) CHECK(std::stod(at) == doctest::Approx(axis.place(value, logarithmic)).epsilon(0.004));
    };
    for (const auto& [value, place] : x.ticks) right_place(x, fmt::format("{}", place), value, plot.x.logarithmic);
    for (const auto& [value, place] : y.ticks) right_place(y, fmt::format("{}", place), value, plot.y.logarithmic);
    for (std::size_t i = 0; i < circles.size(); ++i) {
      const Tag& circle = circles[i];
      const PlotPoint& point = plot.points[i];
      right_place(x, circle.at.at("cx"), point.x, plot.x.logarithmic);
      right_place(y, circle.at.at("cy"), point.y, plot.y.logarithmic);
      CHECK(circle.colour() == point.colour);
      CHECK(circle.number("r") > 0);
      CHECK((circle.number("r") > 5) == point.strong);
      CHECK(circle.number("cx") > 9);  // room for the words of the axis, as a phone shows it
      CHECK(circle.number("cx") < 96);
      CHECK(circle.number("cy") > 28);
      CHECK(circle.number("cy") < 348);
    }
    if (plot.y.from_zero && y.ticks.size() > 1) CHECK(y.ticks.front().first == 0);
    const std::vector<Tag> marks = named(tags, "line", "mark"), joins = named(tags, "line", "join");
    CHECK(marks.size() == (plot.x_limit > 0 ? 1 : 0));
    for (const Tag& mark : marks) {
      right_place(x, mark.at.at("x1"), plot.x_limit, plot.x.logarithmic);
      CHECK(mark.at.at("x1") == mark.at.at("x2"));
      CHECK(mark.number("x2") <= 96);
    }
    REQUIRE(joins.size() == static_cast<std::size_t>(std::max(plot.joined - 1, 0)));
    for (std::size_t i = 0; i < joins.size(); ++i)
      for (const auto& [from, end] : {std::pair{"1", i}, {"2", i + 1}}) {
        CHECK(joins[i].at.at(std::string("x") + from) == circles[end].at.at("cx"));
        CHECK(joins[i].at.at(std::string("y") + from) == circles[end].at.at("cy"));
      }
    for (const Tag& text : named(tags, "text"))  // a label goes on inwards from its point
      if (text.text.starts_with("<"))
        CHECK((text.at.at("text-anchor") == "start") == (text.number("x") < 70 && text.number("dx") > 0));
  }
  CHECK(svg_plot({}).empty());
}

TEST_CASE("the parts of a bar lie one after another, each as wide as its share") {
  std::mt19937 random(22);
  for (int round = 0; round < 200; ++round) {
    std::vector<BarPart> parts;
    for (unsigned long i = 0; i < random() % 6; ++i)
      parts.push_back(
          {static_cast<int>(random() % 10), static_cast<double>(random() % 4) * 0.05, i % 2 == 0 ? "t" : ""});
    const double mark = static_cast<double>(random() % 300) / 200 - 0.25;
    const std::vector<Tag> tags = pages::tags_of(svg_bar(parts, mark)), rects = named(tags, "rect");
    double at = 0;
    std::size_t drawn = 0;
    for (const BarPart& part : parts) {
      if (part.share > 0) {
        REQUIRE(drawn < rects.size());
        CHECK(rects[drawn].number("x") == doctest::Approx(100 * at).epsilon(1e-3));
        CHECK(rects[drawn].number("width") == doctest::Approx(100 * part.share));
        CHECK(rects[drawn].colour() == part.colour);
        ++drawn;
      }
      at += part.share;
    }
    CHECK(rects.size() == drawn);
    const std::vector<Tag> lines = named(tags, "line");
    CHECK(lines.size() == (mark >= 0 && mark <= 1 ? 1 : 0));
    for (const Tag& line : lines) CHECK(line.number("x1") == doctest::Approx(100 * mark).epsilon(1e-3));
  }
}

TEST_CASE("categories that stand in one picture have colours that differ") {
  const std::vector<std::string> memory = {"weights", "gradients", "optimizer", "activations", "other"},
                                 step = {"compute",    "recompute",  "tp exposed", "cp exposed", "ep exposed",
                                         "pp exposed", "dp exposed", "bubble",     "stragglers", "optimizer"};
  for (const auto& names : {memory, step}) {
    std::set<int> colours;
    for (const std::string& name : names) {
      const int colour = category_colour(name);
      CHECK(colour >= 0);
      CHECK(colour <= 9);
      CHECK(colours.insert(colour).second);
    }
  }
  CHECK(category_colour("nothing of these") == category_colour("other"));
}

TEST_CASE("bars of memory, time and messages are as long as the numbers beside them") {
  for (const Plan& plan : drawn_plans()) {
    CAPTURE(plan.problem.model.name);
    CAPTURE(name(plan.best.layout.schedule));
    const std::string page = html_report(plan, {});
    const Estimate& e = plan.best;
    const double gib = 1 << 30, most = static_cast<double>(std::max(e.capacity, e.peak).value) / gib;
    const std::vector<Tag> memory = pages::tags_of(pages::section_of(page, "memory"));
    names_every_colour(memory);
    const std::map<int, std::string> legend = pages::legend_of(memory);
    CHECK(legend.size() == 5);
    std::size_t parts = 0;
    for (std::size_t i = 0; i + 1 < memory.size(); ++i) {
      if (memory[i].name == "line")
        CHECK(memory[i].number("x1") ==
              doctest::Approx(100 * static_cast<double>(e.capacity.value) / gib / most).epsilon(1e-3));
      if (memory[i].name != "rect" || memory[i + 1].name != "title") continue;
      const std::string& title = memory[i + 1].text;  // "weights 12.3 GiB"
      const std::size_t digit = title.find_first_of("0123456789");
      CHECK(title.substr(0, digit - 1) == legend.at(memory[i].colour()));
      CHECK(std::fabs(memory[i].number("width") - 100 * std::stod(title.substr(digit)) / most) < 0.02);
      ++parts;
    }
    CHECK(parts >= 4);
    const std::vector<Tag> time = pages::tags_of(pages::section_of(page, "time"));
    double longest = 0;
    std::vector<std::pair<double, double>> drawn;  // seconds or milliseconds beside the bar, its width
    for (std::size_t i = 0; i < time.size(); ++i)
      if (time[i].name == "span" && time[i].at.count("class") > 0 && time[i].at.at("class") == "words") {
        const double shown = std::stod(time[i + 2].text);
        longest = std::max(longest, shown);
        const auto bar = std::find_if(time.begin() + static_cast<std::ptrdiff_t>(i), time.end(),
                                      [](const Tag& tag) { return tag.name == "rect" || tag.name == "details"; });
        if (bar != time.end() && bar->name == "rect") {
          drawn.emplace_back(shown, bar->number("width"));
          CHECK(bar->colour() == category_colour(time[i].text));
        }
      }
    CHECK(drawn.size() >= 2);
    for (const auto& [shown, width] : drawn) CHECK(std::fabs(width - 100 * shown / longest) < 1);
    if (e.communication.empty()) continue;
    const std::vector<Tag> messages = pages::tags_of(pages::section_of(page, "communication"));
    names_every_colour(messages);
    const std::map<int, std::string> meaning = pages::legend_of(messages);
    CHECK(meaning.size() == 2);
    double whole = 0;
    for (const Communication& c : e.communication) whole = std::max({whole, c.time.value, c.exposed.value});
    double exposed = 0, hidden = 0, exposed_drawn = 0, hidden_drawn = 0;
    for (const Communication& c : e.communication)
      exposed += c.exposed.value / whole, hidden += std::max(0.0, (c.time - c.exposed).value) / whole;
    for (std::size_t i = 0; i + 1 < messages.size(); ++i) {
      if (messages[i].name != "rect" || messages[i + 1].name != "title") continue;
      CHECK(messages[i + 1].text.starts_with(meaning.at(messages[i].colour())));
      (meaning.at(messages[i].colour()) == "exposed" ? exposed_drawn : hidden_drawn) +=
          messages[i].number("width") / 100;
    }
    CHECK(exposed_drawn == doctest::Approx(exposed).epsilon(0.01));
    CHECK(hidden_drawn == doctest::Approx(hidden).epsilon(0.01));
  }
}

TEST_CASE("the front's picture has every layout once, in the colour of its kind") {
  const Plan plan = drawn_plans().front();
  const std::vector<Tag> tags = pages::tags_of(pages::section_of(html_report(plan, {}), "front"));
  names_every_colour(tags);
  std::map<std::string, std::size_t> counts;
  const std::map<int, std::string> legend = pages::legend_of(tags);
  for (const Tag& circle : named(tags, "circle")) ++counts[legend.at(circle.colour())];
  CHECK(counts == std::map<std::string, std::size_t>{
                      {"best", 1}, {"other ideas", plan.runners_up.size()}, {"the front", plan.front.size()}});
  CHECK(named(tags, "line", "join").size() == plan.front.size() - 1);
  CHECK(named(tags, "line", "mark").size() == 1);
}

TEST_CASE("a page's timeline gives each kind of work the length of its time") {
  for (const Plan& plan : drawn_plans()) {
    CAPTURE(name(plan.best.layout.schedule));
    const StepReplay step = replay(plan).value();
    const std::vector<Tag> tags = pages::tags_of(timeline_html(step));
    names_every_colour(tags);
    const std::map<int, std::string> legend = pages::legend_of(tags);
    std::map<int, std::map<std::string, double>> drawn;  // rank -> name of the colour -> share of the step
    int rank = -1;
    double cells = 1;
    for (std::size_t i = 0; i < tags.size(); ++i) {
      const Tag& tag = tags[i];
      if (tag.name == "title") rank = std::stoi(tag.text.substr(tag.text.find(' ')));
      if (tag.name == "svg" && tag.at.count("viewBox") > 0) cells = std::stod(tag.at.at("viewBox").substr(4));
      if (tag.name != "path") continue;
      const std::string& d = tag.at.at("d");
      for (std::size_t at = d.find('h'); at != std::string::npos; at = d.find('h', at + 1))
        drawn[rank][legend.at(tag.colour())] += std::stod(d.substr(at + 1)) / cells;
    }
    REQUIRE(static_cast<int>(drawn.size()) == step.pipeline.pp);
    const double whole = plan.best.step_time.value;
    for (auto& row : drawn) {
      const int which = row.first;
      std::map<std::string, double>& lengths = row.second;
      CAPTURE(which);
      std::map<std::string, double> wanted;
      std::size_t ops = 0;
      for (const ReplayedOp& op : step.ops) {
        if (op.rank != which) continue;
        const char* work = op.op.work == PipelineWork::Forward          ? "forward"
                           : op.op.work == PipelineWork::WeightGradient ? "weight gradients"
                           : op.op.work == PipelineWork::Pair           ? "forward and backward at once"
                                                                        : "backward";
        wanted[work] += (op.end - op.start).value / whole;
        ++ops;
      }
      wanted["gradients and parameters, exposed"] = (step.gather + step.reduce).value / whole;
      wanted["optimizer"] = step.optimizer.value / whole;
      wanted["waiting for the slowest rank"] = step.straggler.value / whole;
      const double slack = static_cast<double>(ops + 4) / cells;  // an end falls between two cells
      for (const auto& share : wanted) {
        const std::string& work = share.first;
        CAPTURE(work);
        CHECK(std::fabs(lengths[work] - share.second) < slack);
      }
    }
  }
}

TEST_CASE("the course of a predicted step has of each part what the step has") {
  for (const Plan& plan : drawn_plans()) {
    CAPTURE(name(plan.best.layout.schedule));
    const std::vector<Observable> course = predicted_course(plan);
    CHECK(course.size() == 240);
    const auto share = [&](std::initializer_list<Observable> parts) {
      double pieces = 0;
      for (const Observable part : parts) pieces += static_cast<double>(std::count(course.begin(), course.end(), part));
      return pieces / static_cast<double>(course.size());
    };
    const StepReplay step = replay(plan).value();
    const double whole = plan.best.step_time.value, slack = 0.02;
    double busy = 0, waits = 0;
    Seconds end{};
    for (const ReplayedOp& op : step.ops)
      if (op.rank == 0) busy += (op.end - op.start).value, end = std::max(end, op.end);
    waits = step.pipeline_time.value - busy;
    const bool alone = plan.best.layout.dense_group() == 1;
    const double last = (step.straggler).value;
    CHECK(std::fabs(share({Observable::Compute, Observable::Tp, Observable::Cp, Observable::Ep}) - busy / whole) <
          slack + static_cast<double>(step.ops.size()) / 4 / 240);
    if (plan.best.layout.pp == 1) CHECK(std::fabs(share({Observable::Pipeline}) - waits / whole) < slack);
    CHECK(std::fabs(share({Observable::Dp}) - (step.gather + step.reduce).value / whole - (alone ? 0 : last / whole)) <
          slack);
    CHECK(std::fabs(share({Observable::Optimizer, Observable::Idle}) - step.optimizer.value / whole -
                    (alone ? last / whole : 0)) < slack);
  }
}
