// What is read from launch files of every tool, all of it, and what one edit of a line changes in that: without it, a
// number twice as large or one larger, a truth turned. Kept in tests/launch/recorded, to be read when it changes.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <set>

#include "record.hpp"
#include "samples.hpp"
#include "told.hpp"

namespace plan {

using namespace launching;
namespace fs = std::filesystem;

namespace {

/// Files that are read together; the first is the one that is edited.
struct Given {
  std::string name{};
  std::vector<std::pair<std::string, std::string>> files{};
  int gpus = 0;  ///< that flags state; 0: the files do
};

/// The files on disk, in a folder of a fixed name, after which some readers name a model.
class OnDisk {
 public:
  explicit OnDisk(const Given& given) : given_(given) {
    for (const auto& [name, text] : given.files) folder_.write(kJob + name, text);
  }

  Told read(bool places) const { return read(places, given_.gpus, 8); }
  Told read(bool places, int gpus, int gpus_per_node) const {
    const LaunchContext context{.model = {}, .gpus = gpus, .gpus_per_node = gpus_per_node, .arguments = {}};
    return told(read_launch_files({folder_.at(kJob + given_.files.front().first)}, context), folder_.at(kJob), places);
  }
  Told read_edited(const std::string& text) const {
    folder_.write(kJob + given_.files.front().first, text);
    return read(false);
  }

 private:
  inline static const std::string kJob = "job/";
  const Given& given_;
  TemporaryFolder folder_{};
};

/// A line, and what is edited in it.
struct Edit {
  std::string what{};
  std::string line{};
};

std::vector<Edit> edits_of(const std::string& line) {
  static const std::regex kNumber("(^|[^\\w.$#-])([1-9][0-9]{0,11})(?![\\w.-])"),
      kTruth("\\b(true|false|True|False)\\b");
  std::vector<Edit> out{{"without", ""}};
  int nth = 0;
  for (std::sregex_iterator at(line.begin(), line.end(), kNumber), end; at != end && nth < 6; ++at, ++nth) {
    const std::size_t start = static_cast<std::size_t>(at->position(2)),
                      length = static_cast<std::size_t>(at->length(2));
    const long long value = std::stoll((*at)[2]);
    for (const long long other : {2 * value, value + 1}) {
      std::string edited = line;
      edited.replace(start, length, std::to_string(other));
      out.push_back({fmt::format("{} as {}", value, other), edited});
      if (value == 1) break;  // twice as much is one more
    }
  }
  if (std::smatch found; std::regex_search(line, found, kTruth)) {
    const std::string word = found[1];
    const char* const other = word == "true" ? "false" : word == "false" ? "true" : word == "True" ? "False" : "True";
    out.push_back({word + " as " + other, found.prefix().str() + other + found.suffix().str()});
  }
  return out;
}

/// What every edit of a line changes. Lines that another job of the tool has, too, are edited once.
std::string edits_told(const Given& given, std::set<std::string>& edited_before) {
  std::string out;
  const OnDisk files(given);
  const Told before = files.read(false);
  const auto add = [&](const std::string& what, const Told& after) {
    const std::vector<std::string> changes = differences(before, after);
    if (!changes.empty()) out += fmt::format("{}: {}\n", what, fmt::join(changes, "; "));
  };
  // What flags beside the files say of the GPUs.
  add("on 16 GPUs, 4 a node", files.read(false, 16, 4));
  add("on 12 GPUs", files.read(false, 12, 0));
  const std::vector<std::string> lines = lines_of(given.files.front().second);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find_first_not_of(" \t\\") == std::string::npos || lines[i].starts_with("#!")) continue;
    if (!edited_before.insert(lines[i]).second) continue;
    for (const Edit& edit : edits_of(lines[i])) {
      std::string text;
      for (std::size_t k = 0; k < lines.size(); ++k)
        if (k != i)
          text += lines[k] + "\n";
        else if (edit.what != "without")
          text += edit.line + "\n";
      add(fmt::format("{} {}", i + 1, edit.what), files.read_edited(text));
    }
  }
  return out;
}

/// Readings one after the other, each as what it says otherwise than the one before it that is most like it.
struct Record {
  std::string text{};
  std::vector<std::pair<std::string, Told>> before{};
  std::set<std::string> edited{};

  void add(const Given& given, bool with_edits) {
    const Told said = OnDisk(given).read(true);
    const std::pair<std::string, Told>* nearest = nullptr;
    std::vector<std::string> fewest;
    for (const auto& one : before) {
      std::vector<std::string> other = differences(one.second, said);
      if (nearest != nullptr && other.size() >= fewest.size()) continue;
      nearest = &one;
      fewest = std::move(other);
    }
    const bool whole = nearest == nullptr || is_refused(said) || fewest.size() >= said.size();
    text += fmt::format("== {}{}\n", given.name, whole ? "" : ", beside " + nearest->first);
    if (whole)
      for (const auto& [key, value] : said) text += key + ": " + value + "\n";
    else
      for (const std::string& line : fewest) text += line + "\n";
    if (!is_refused(said)) before.emplace_back(given.name, said);
    if (with_edits) text += edits_told(given, edited);
    text += "\n";
  }
};

std::vector<Given> inputs_in(const std::string& folder) {
  std::vector<Given> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(PLAN_SOURCE_DIR "/tests/" + folder))
    out.push_back(
        {entry.path().filename().string(), {{entry.path().filename().string(), contents_of(entry.path())}}, 0});
  std::sort(out.begin(), out.end(), [](const Given& a, const Given& b) { return a.name < b.name; });
  return out;
}

void compare_all(const std::string& group, const std::vector<Given>& inputs, bool with_edits = true) {
  Record record;
  for (const Given& given : inputs) record.add(given, with_edits);
  compare_with_record(group, record.text);
}

/// The jobs of one file of tests/launch/inputs: each begins with `#### NAME`, or `#### NAME on GPUS`, each of its files
/// with `---- PATH`.
std::vector<Given> bundled(const fs::path& path) {
  std::vector<Given> out;
  for (const std::string& line : lines_of(contents_of(path))) {
    if (line.starts_with("#### ")) {
      const std::size_t on = line.find(" on ");
      out.push_back({line.substr(5, on - 5), {}, on == std::string::npos ? 0 : std::stoi(line.substr(on + 4))});
    } else if (line.starts_with("---- ")) {
      out.back().files.emplace_back(line.substr(5), "");
    } else {
      out.back().files.back().second += line + "\n";
    }
  }
  return out;
}

}  // namespace

TEST_CASE("samples of every tool are read as recorded") {
  std::vector<Given> inputs;
  for (const Sample& sample : kSamples) inputs.push_back({sample.name, {{sample.name, sample.text}}, sample.gpus});
  compare_all("samples", inputs);
}

TEST_CASE("public launch files are read as recorded") { compare_all("published", inputs_in("published/launch")); }

TEST_CASE("what is given to fuzz targets is read as recorded") {
  for (const char* folder : {"shell_script", "launch_yaml", "deepspeed_json", "torchtitan_python", "torchtitan_toml"})
    compare_all(folder, inputs_in(std::string("fuzz/corpus/") + folder), false);
}

TEST_CASE("small jobs in the words of every tool are read as recorded") {
  int tools = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(PLAN_SOURCE_DIR "/tests/launch/inputs")) {
    const std::string tool = entry.path().stem().string();
    CAPTURE(tool);
    compare_all("read-" + tool, bundled(entry.path()));
    ++tools;
  }
  CHECK(tools > 20);
}

TEST_CASE("flags of Megatron-LM and its forks are read as recorded") {
  const std::string start =
      "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
      "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 --eval-interval 100 --bf16 "
      "--vocab-size 32000 ";
  const auto with = [](const std::string& text) { return OnDisk({"", {{"run.sh", text}}, 0}).read(false); };
  const Told before = with(start + "--tensor-model-parallel-size 2\n");
  std::string text;
  for (const std::string& flag : lines_of(contents_of(PLAN_SOURCE_DIR "/tests/launch/flags.txt"))) {
    text += flag + ":";
    // With no word behind it, one and two: as many as it takes, and those that it leaves, are told apart.
    for (const char* const words : {"", " 3", " 3 5"}) {
      const std::vector<std::string> changes =
          differences(before, with(start + "--" + flag + words + " --tensor-model-parallel-size 2\n"));
      text += fmt::format("{} {}\n", words, fmt::join(changes, "; "));
    }
  }
  compare_with_record("flags", text);
}

}  // namespace plan
