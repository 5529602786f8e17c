// Which questions a sweep asks. Tested by tests/cli/sweep_test.cpp.
#include "cli/request/flags/sweep_axes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "cli/terminal/format.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/text.hpp"
#include "presets/quantity.hpp"
#include "presets/shell_quoted.hpp"

namespace plan {
namespace {

constexpr std::size_t kMostPoints = 256;
constexpr std::int64_t kMostCount = std::int64_t{1} << 32;
constexpr double kMostFactor = 1e6;

struct SweptFlag {
  const char* key;
  const char* flag;
  Args::Text Args::*value;
  bool factors, names;
  bool nodes = false;  ///< lost: every whole number of the range, and none
};
constexpr SweptFlag kFlags[] = {{"model", "--model", &Args::model, false, true},
                                {"gpu", "--gpu", &Args::gpu, false, true},
                                {"precision", "--precision", &Args::precision, false, true},
                                {"optimizer", "--optimizer", &Args::optimizer, false, true},
                                {"framework", "--framework", &Args::framework, false, true},
                                {"task", "--task", &Args::task, false, true},
                                {"gpus", "--gpus", &Args::gpus, false, false},
                                {"seq", "--seq", &Args::seq, false, false},
                                {"global_batch", "--global-batch", &Args::global_batch, false, false},
                                {"inter_bandwidth", "--inter-bandwidth", &Args::inter_bandwidth, true, false},
                                {"intra_bandwidth", "--intra-bandwidth", &Args::intra_bandwidth, true, false},
                                {"memory", "--memory", &Args::memory, true, false},
                                {"host_memory", "--host-memory", &Args::host_memory, false, false},
                                {"lose", "--lose", &Args::lose, false, false, true}};

/// Its values are amounts, or times what the cluster has where they say so.
bool is_host_memory(std::string_view flag) { return flag == "--host-memory"; }

/// `0.5x..2x`, where an amount could stand.
bool counts_times(std::string_view text) { return text.find('x') != std::string_view::npos; }

/// "0.5x" or "0.5"; from 10 on with its x, for `--memory 80` is meant as a size.
Result<double> read_factor(const std::string& flag, std::string text) {
  constexpr double kMostBare = 10;
  const bool marked = !text.empty() && text.back() == 'x';
  if (marked) text.pop_back();
  const std::optional<double> value = parse_number(text);
  if (value && *value > 0 && *value <= (marked ? kMostFactor : kMostBare) && *value >= 1 / kMostFactor) return *value;
  Error error{"bad_value", fmt::format("`{}` takes factors, not `{}`", flag, text), {}, {}};
  error.help.push_back(fmt::format("write `{} 0.5x..4x` or `{} 1x,2x`: times what the {} has", flag, flag,
                                   is_host_memory(flag) ? "node" : "GPU"));
  if (is_host_memory(flag)) return fail(std::move(error));
  if (value || (!text.empty() && std::isalpha(static_cast<unsigned char>(text.back())) != 0))  // a size, or a rate
    error.help.emplace_back("kinds of GPU are swept by name: `--gpu h100-sxm,h200-sxm`");
  return fail(std::move(error));
}

Result<double> read_one(const std::string& flag, const std::string& text, bool factors) {
  if (factors) return read_factor(flag, text);
  if (is_host_memory(flag))
    return read_host_memory(text).map([](Bytes memory) { return static_cast<double>(memory.value) / kGiB; });
  const Result<std::int64_t> count = read_count(flag, text, 1, kMostCount);
  if (!count) return fail(count.error());
  return static_cast<double>(*count);
}

SweepValue value_of(double number, bool factors, std::string_view flag = {}) {
  if (is_host_memory(flag) && !factors) return {fmt::format("{}GiB", number_text(number, 12)), number};
  return {factors ? fmt::format("{}x", number_text(number)) : fmt::format("{:.0f}", number), number};
}

bool is_swept(const SweptFlag& flag, const std::string& text) {
  return text.find(',') != std::string::npos || (!flag.names && text.find("..") != std::string::npos);
}

/// In order, each once.
void sort_values(std::vector<SweepValue>& values) {
  std::stable_sort(values.begin(), values.end(),
                   [](const SweepValue& a, const SweepValue& b) { return a.number < b.number; });
  values.erase(std::unique(values.begin(), values.end(),
                           [](const SweepValue& a, const SweepValue& b) { return a.number == b.number; }),
               values.end());
}

/// "1..4" or "1,8": nodes lost, after 0.
Result<std::vector<SweepValue>> lost_nodes(const std::string& text) {
  std::vector<SweepValue> out = {value_of(0, false)};
  for (const std::string_view part : split(text, ",")) {
    const std::vector<std::string_view> ends = split(part, "..");
    const Result<std::int64_t> first = read_count("--lose", std::string(ends.front()), 0, kMostCount);
    const Result<std::int64_t> last = read_count("--lose", std::string(ends.back()), 0, kMostCount);
    if (!first) return fail(first.error());
    if (!last) return fail(last.error());
    if (ends.size() > 2 || *last < *first)
      return fail({"bad_value",
                   fmt::format("`--lose` takes nodes from fewer to more, not `{}`", part),
                   {},
                   {"write `--lose 1..4`"}});
    for (std::int64_t nodes = *first; nodes <= *last && out.size() <= kMostPoints; ++nodes)
      out.push_back(value_of(static_cast<double>(nodes), false));
  }
  sort_values(out);
  return out;
}

/// The values that are meant where other signs than `..` and commas stand between numbers: `256-1024`, `[256, 512]`. Of
/// three, the step of a range may be the last: a range doubles. Empty where the text is anything else.
std::string meant_values(std::string_view text, bool factors) {
  std::vector<std::string> numbers;
  std::string between, all(trim(text, " \t[](){}"));
  for (std::size_t at = 0; at < all.size();) {
    std::size_t end = std::min(all.find_first_not_of("0123456789kKmM", at), all.size());
    if (factors) end = std::min(all.find_first_not_of("0123456789.x", at), all.size());
    if (factors && all.find("..", at) < end) end = all.find("..", at);
    if (end == at) return {};
    numbers.push_back(all.substr(at, end - at));
    at = std::min(all.find_first_of("0123456789", end), all.size());
    const std::string sign(trim(std::string_view(all).substr(end, at - end)));
    if (at < all.size() && numbers.size() > 1 && sign != between) return {};
    if (at < all.size())
      between = sign;
    else if (!sign.empty())
      return {};
  }
  constexpr std::string_view kRange[] = {"-", ":", "..", "...", "to", "~", "->", "=>", "\u2013", "\u2026", "until"};
  constexpr std::string_view kList[] = {"", ";", "/", "|", ",", "and", "or", "&"};
  const auto among = [&](const auto& signs) {
    return std::find(std::begin(signs), std::end(signs), between) != std::end(signs);
  };
  const bool thousands = between.empty() && !numbers.empty() && numbers[0].size() < 3 && without_separators(all);
  if (numbers.size() < 2 || thousands) return {};
  if (among(kList)) return fmt::format("{}", fmt::join(numbers, ","));
  if (!among(kRange) || numbers.size() > 3) return {};
  const auto size = [&](const std::string& number) { return read_one("", number, factors).value_or(0); };
  if (size(numbers[0]) > size(numbers[1])) std::swap(numbers[0], numbers[1]);
  return fmt::format("{}..{}", numbers[0], numbers[1]);
}

/// What an error proposes to write as the value of the flag.
std::vector<std::string> proposed_values(const std::string& flag, const Errors& errors) {
  std::vector<std::string> values;
  const std::string before = fmt::format("write `{} ", flag);
  for (const std::string& help : errors.front().help) {
    const std::string_view value = help.starts_with(before) ? std::string_view(help).substr(before.size()) : "";
    if (value.find_first_of("`' ") + 1 == value.size()) values.emplace_back(value.substr(0, value.size() - 1));
  }
  return values;
}

/// All of the values, each that is none replaced by what its error proposes, of two the one of this place. Empty where
/// nothing is proposed, or not for all.
std::string with_proposals(const std::string& flag, const std::string& text, std::size_t place) {
  std::vector<std::string> parts;
  for (const std::string_view part : split(text, ",")) {
    std::vector<std::string> ends;
    for (const std::string_view end : split(part, "..")) {
      const Result<double> value = read_one(flag, std::string(end), false);
      const std::vector<std::string> meant =
          value ? std::vector{std::string(end)} : proposed_values(flag, value.error());
      if (meant.empty()) return {};
      ends.push_back(meant[std::min(place, meant.size() - 1)]);
    }
    parts.push_back(fmt::format("{}", fmt::join(ends, "..")));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

/// `1,000,2,000` with the thousands of each number joined: of every three digits behind a comma, or of those alone that
/// begin with a zero and so are no number of their own.
std::string with_thousands_joined(std::string_view text, bool every) {
  const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool group = text[at] == ',' && digit(at + 1) && digit(at + 2) && digit(at + 3) && !digit(at + 4);
    const bool behind = at > 0 && digit(at - 1);
    if (!group || !behind || !(every || text[at + 1] == '0')) out += text[at];
  }
  return out;
}

/// That a list has a number that begins with zeros, as `1,024` has: one number, or several with their thousands apart.
Error parted_thousands(const std::string& flag, const std::string& text, std::string_view part) {
  Error error{"bad_number", fmt::format("`{}` lists counts between commas, and `{}` is none", flag, part), {}, {}};
  std::vector<std::string> meant = {with_thousands_joined(text, false)};
  if (std::string every = with_thousands_joined(text, true); every != meant.front()) meant.push_back(std::move(every));
  for (const std::string& values : meant) {
    const bool other = values != text && values.find(",0") == std::string::npos;  // else it is refused again
    if (other && read_sweep_values(flag, values, false))
      error.help.push_back(fmt::format("write `{} {}`", flag, values));
  }
  if (error.help.empty()) error.help.push_back(fmt::format("write `{} 256,512`", flag));
  return error;
}

/// The error of a flag's values, with what to write where other signs stand between them.
tl::unexpected<Errors> no_values(const std::string& flag, const std::string& text, bool factors, const Errors& errors) {
  const std::string meant = meant_values(text, factors);
  if (meant.empty() || meant == text || !read_sweep_values(flag, meant, factors)) {
    Errors found = errors;
    std::vector<std::string> help;
    for (const std::size_t place : {std::size_t{0}, std::size_t{1}}) {
      const std::string all = factors ? "" : with_proposals(flag, text, place);
      if (all.empty() || all == text || !read_sweep_values(flag, all, factors)) continue;
      const std::string line = fmt::format("write `{} {}`", flag, all);
      if (help.empty() || help.front() != line) help.push_back(line);
    }
    if (!help.empty()) found.front().help = std::move(help);
    return tl::unexpected(found);
  }
  return fail({"bad_value",
               fmt::format("`{}` takes values as `256,512` or `256..1024`, not `{}`", flag, text),
               {},
               {fmt::format("write `{} {}`", flag, meant)}});
}

std::vector<SweepValue> names(const std::string& text) {
  std::vector<SweepValue> out;
  for (const std::string_view name : split(text, ",")) out.push_back({std::string(name), 0});
  return out;
}

}  // namespace

bool sweeps_words(std::string_view flag) {
  return std::any_of(std::begin(kFlags), std::end(kFlags),
                     [&](const SweptFlag& row) { return row.names && row.flag == flag; });
}

Result<std::vector<SweepValue>> read_sweep_values(const std::string& flag, const std::string& text, bool factors) {
  std::vector<SweepValue> out;
  for (const std::string_view part : split(text, ",")) {
    if (!factors && !is_host_memory(flag) && part.size() > 1 && part.front() == '0')  // `1,024` is no list
      return fail(parted_thousands(flag, text, part));
    const std::vector<std::string_view> ends = split(part, "..");
    const Result<double> first = read_one(flag, std::string(ends.front()), factors);
    const Result<double> last = read_one(flag, std::string(ends.back()), factors);
    if (!first) return no_values(flag, text, factors, first.error());
    if (!last) return no_values(flag, text, factors, last.error());
    if (ends.size() > 2 || *last < *first)
      return no_values(
          flag, text, factors,
          {{"bad_value",
            fmt::format("`{}` takes a range from the smaller to the larger, not `{}`", flag, part),
            {},
            {factors ? "write `0.5x..4x`" : "write `256..65536`: it doubles from the first to the last"}}});
    for (double value = *first; value < *last * (1 - 1e-9) && out.size() <= kMostPoints; value *= 2)
      out.push_back(value_of(value, factors, flag));
    out.push_back(value_of(*last, factors, flag));
  }
  sort_values(out);
  return out;
}

std::string swept_instead(std::string_view flag, const std::string& text) {
  const auto* row =
      std::find_if(std::begin(kFlags), std::end(kFlags), [&](const SweptFlag& r) { return flag == r.flag; });
  if (row == std::end(kFlags) || row->factors || row->nodes) return {};
  const std::string meant = row->names || is_swept(*row, text) ? text : meant_values(text, false);
  if (meant.empty() || !is_swept(*row, meant)) return {};
  if (!row->names && !read_sweep_values(std::string(flag), meant, false)) return {};
  return fmt::format("several values are swept: `plan sweep {} {}`", flag, shell_quoted(meant));
}

Errors swept_errors(std::string_view flag, const std::string& text, Errors found) {
  std::string swept = swept_instead(flag, text);
  if (swept.empty()) return found;
  if (!without_separators(text))
    return {{"bad_value", fmt::format("`{}` takes one value here, got `{}`", flag, text), {}, {std::move(swept)}}};
  found.front().help.push_back(std::move(swept));
  return found;
}

Result<std::vector<SweepAxis>> sweep_axes(const Args& args) {
  std::vector<SweepAxis> axes;
  Errors errors;
  std::size_t points = 1;
  for (const SweptFlag& flag : kFlags) {
    const Args::Text& typed = args.*flag.value;
    const bool factors = flag.factors || (is_host_memory(flag.flag) && typed && counts_times(*typed));
    if (typed && !flag.names && !flag.nodes && !factors && !is_swept(flag, *typed) &&
        !read_one(flag.flag, *typed, factors)) {
      const Result<std::vector<SweepValue>> none = read_sweep_values(flag.flag, *typed, factors);
      if (!none && none.error().front().code == "bad_value") keep_errors(errors, none);
    }
    if (!typed || (!factors && !flag.nodes && !is_swept(flag, *typed))) continue;
    SweepAxis axis{flag.key, {}, !flag.names};
    if (flag.names) {
      axis.values = names(*typed);
    } else {
      Result<std::vector<SweepValue>> values =
          flag.nodes ? lost_nodes(*typed) : read_sweep_values(flag.flag, *typed, factors);
      if (!keep_errors(errors, values)) continue;
      axis.values = std::move(*values);
    }
    if (axis.values.size() < 2) continue;  // one factor: it holds for all points
    points *= axis.values.size();
    axes.push_back(std::move(axis));
  }
  if (errors.empty() && axes.empty())
    errors.push_back(
        {"nothing_to_sweep",
         "no flag has more than one value",
         {},
         {"write `--gpus 256..65536`, `--gpu h100-sxm,b200-sxm`, `--precision bf16,fp8`, `--inter-bandwidth 0.5x..4x` "
          "or `--lose 1..4`"}});
  if (errors.empty() && points > kMostPoints)
    errors.push_back({"too_many_points", fmt::format("the sweep has {} points, at most {}", points, kMostPoints)});
  if (!errors.empty()) return fail(std::move(errors));
  return axes;
}

std::vector<SweepQuestion> sweep_points(const Args& args, const std::vector<SweepAxis>& axes) {
  std::vector<SweepQuestion> out = {{{}, args}};
  for (const SweepAxis& axis : axes) {
    const auto* flag =
        std::find_if(std::begin(kFlags), std::end(kFlags), [&](const SweptFlag& row) { return axis.key == row.key; });
    std::vector<SweepQuestion> next;
    for (const SweepQuestion& point : out)
      for (std::size_t i = 0; i < axis.values.size(); ++i) {
        next.push_back(point);
        next.back().at.push_back(i);
        next.back().args.*(flag->value) = axis.values[i].text;
      }
    out = std::move(next);
  }
  return out;
}

bool times_of_hosts(const Args& args) { return args.host_memory && counts_times(*args.host_memory); }

Result<HardwareFactors> hardware_factors(const Args& args) {
  HardwareFactors out;
  Errors errors;
  const auto take = [&](const char* flag, const Args::Text& typed, double& factor) {
    if (!typed) return;
    const Result<double> read = read_factor(flag, *typed);
    if (keep_errors(errors, read)) factor = *read;
  };
  take("--inter-bandwidth", args.inter_bandwidth, out.inter);
  take("--intra-bandwidth", args.intra_bandwidth, out.intra);
  take("--memory", args.memory, out.memory);
  if (times_of_hosts(args)) take("--host-memory", args.host_memory, out.host);
  if (!errors.empty()) return fail(std::move(errors));
  return out;
}

void scale_hardware(Cluster& cluster, const HardwareFactors& factors) {
  if (factors.intra != 1 || factors.inter != 1) cluster.learnt = {};  // nothing ran there
  const auto scale = [](BytesPerSecond& rate, double factor) { rate = rate * factor; };
  for (std::size_t i = 0; i < cluster.tiers.size(); ++i)
    scale(cluster.tiers[i].bandwidth, i == 0 ? factors.intra : factors.inter);
  for (Tier& tier : cluster.tiers) scale(tier.torus.link, factors.intra);
  scale(cluster.gpu.slices.link, factors.intra);
  scale(cluster.gpu.scale_up, factors.intra);
  scale(cluster.gpu.nic, factors.inter);
  for (CollectiveFit& fit : cluster.gpu.collectives) scale(fit.busbw, factors.intra);
  for (NetworkCurve& curve : cluster.network) scale(curve.fit.busbw, factors.inter);
  cluster.host_memory = Bytes(static_cast<std::int64_t>(static_cast<double>(cluster.host_memory.value) * factors.host));
  cluster.gpu.memory = Bytes(static_cast<std::int64_t>(static_cast<double>(cluster.gpu.memory.value) * factors.memory));
}

}  // namespace plan
