// The machines of clouds by the names that their users know. They are no presets of GPUs: whoever names one is told
// which GPUs it has and how many. Tested by tests/presets/machines_test.cpp.
#include "presets/machines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "formulas/text.hpp"
#include "presets/embedded.hpp"
#include "presets/header.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::string_view kTimes = " x ";  // a number and a kind of GPU
constexpr int kMostOfOne = 1024;            // GPUs

/// `8 x h100-sxm`; false where a text is no such thing.
bool read_row(std::string_view text, CloudMachine& machine) {
  const std::size_t at = text.find(kTimes);
  if (at == std::string_view::npos) return false;
  const auto [end, status] = std::from_chars(text.data(), text.data() + at, machine.gpus);
  machine.gpu = text.substr(at + kTimes.size());
  return status == std::errc() && end == text.data() + at && machine.gpus > 0 && machine.gpus <= kMostOfOne &&
         !machine.gpu.empty();
}

void read_rows(yaml::Map rows, bool described, std::vector<CloudMachine>& out) {
  for (const auto& [name, row] : rows.entries()) {
    CloudMachine machine{name->text, 0, {}, described};
    if (row->kind != yaml::Kind::Scalar || !read_row(row->text, machine))
      rows.reader().error(*row, "bad_value", fmt::format("`{}` is not written as `8 x h100-sxm`", name->text));
    else
      out.push_back(std::move(machine));
  }
}

/// A name as it is compared: without what Azure and SageMaker write before it.
std::string folded(std::string_view name) {
  constexpr std::string_view kAzure = "standard", kSageMaker = "ml.";
  if (name.starts_with(kSageMaker)) name.remove_prefix(kSageMaker.size());
  const std::string out = letters_and_digits(name);
  return out.starts_with(kAzure) ? out.substr(kAzure.size()) : out;
}

/// Does a name begin with these letters and go on behind a sign?
bool begins_with(std::string_view name, std::string_view wanted) {
  for (std::size_t at = 1; at < name.size(); ++at)
    if (!letter_or_digit(name[at]) && folded(name.substr(0, at)) == wanted) return true;
  return false;
}

/// One machine of each kind of GPU, the largest.
std::vector<CloudMachine> largest_of_kinds(const std::vector<CloudMachine>& all) {
  std::vector<CloudMachine> kinds;
  for (const CloudMachine& machine : all) {
    const auto known =
        std::find_if(kinds.begin(), kinds.end(), [&](const CloudMachine& other) { return other.gpu == machine.gpu; });
    if (known == kinds.end())
      kinds.push_back(machine);
    else if (known->gpus < machine.gpus)
      *known = machine;
  }
  return kinds;
}

}  // namespace

Result<std::vector<CloudMachine>> read_machines(std::string_view text, std::string file) {
  return yaml::read_document<std::vector<CloudMachine>>(std::string(text), std::move(file),
                                                        [](yaml::Map root, std::vector<CloudMachine>& out) {
                                                          std::string name;
                                                          read_header(root, "machines/1", name);
                                                          read_rows(root.map("machines"), true, out);
                                                          read_rows(root.map("lacking", yaml::kOptional), false, out);
                                                          root.finish();
                                                        });
}

const std::vector<CloudMachine>& machines() {
  static const std::vector<CloudMachine> all = [] {
    std::vector<CloudMachine> read;
    for (const EmbeddedFile& file : embedded_files()) {
      if (file.folder != "machines") continue;
      const auto some = read_machines(file.text, fmt::format("embedded:{}", file.name));
      if (some) read.insert(read.end(), some->begin(), some->end());  // a test reads each without mistakes
    }
    return read;
  }();
  return all;
}

std::vector<CloudMachine> machines_called(std::string_view word) {
  const std::string wanted = folded(word);
  std::vector<CloudMachine> found;
  if (wanted.empty()) return found;
  for (const CloudMachine& machine : machines()) {
    if (folded(machine.name) == wanted) return {machine};
    if (begins_with(machine.name, wanted)) found.push_back(machine);
  }
  return found;
}

CloudMachine machine_called(std::string_view word) {
  const std::vector<CloudMachine> kinds = largest_of_kinds(machines_called(word));
  return kinds.size() == 1 && kinds.front().described ? kinds.front() : CloudMachine{};
}

std::string about_machines(std::string_view word) {
  const std::vector<CloudMachine> kinds = largest_of_kinds(machines_called(word));
  if (kinds.empty() || !machine_called(word).name.empty()) return {};
  if (kinds.size() == 1)
    return fmt::format("`{}` has {} {}, which no preset describes", kinds.front().name, kinds.front().gpus,
                       kinds.front().gpu);
  std::string out;
  for (const CloudMachine& machine : kinds)
    out += fmt::format("{}`{}` has {} {}", out.empty() ? "" : ", ", machine.name, machine.gpus, machine.gpu);
  return "of the machines of that name " + out;
}

}  // namespace plan
