// Every command line that README.md, the manual and `--help` print is run in a folder that holds the files they name,
// and ends with the status that the text implies: 0; 1 where the text goes on with an error; either where the command
// asks whether a layout works (`estimate`, `check`, `diagnose`) and the text leaves the answer open.
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

#include "check_files.hpp"
#include "clean_environment.hpp"
#include "cli/request/table/command_table.hpp"
#include "contents.hpp"

using namespace plan;
using namespace plan::checks;
namespace fs = std::filesystem;

namespace {

const std::string kSource = PLAN_SOURCE_DIR;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

struct Documented {
  std::string command;  ///< as it is run
  int status = 0;
};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// What the page leaves to the reader: `...`, and words in capitals.
std::string completed(std::string command) {
  for (const char* end : {" #", " ."})
    if (const std::size_t at = command.find(end);
        at != std::string::npos && (end[1] == '#' || at + 2 == command.size()))
      command.resize(at);
  while (!command.empty() && std::string(" ,:;").find(command.back()) != std::string::npos) command.pop_back();
  command = replaced(command, "TERM.SYMBOL", "activations.k");
  command = replaced(command, "show model NAME", "show model 405b");
  command = replaced(command, "show formula NAME", "show formula mfu");
  command = replaced(command, "schedule=WORD", "schedule=1f1b");
  command = replaced(command, "\\(dq", "\"");
  const bool needs_job = has(command, "...") || command.rfind("plan -", 0) == 0 ||
                         command.rfind("plan explain", 0) == 0 || command.rfind("plan estimate", 0) == 0;
  command = replaced(command, " ...", "");
  if (needs_job && !has(command, "--model") && !has(command, "--from"))
    command.insert(command.find('>') == std::string::npos ? command.size() : command.find('>'),
                   " --model 405b --gpus 16384");
  if (command.rfind("plan estimate", 0) == 0 && !has(command, "--layout") && !has(command, "--from"))
    command += " --layout tp8,pp16,vp8";
  return command;
}

/// A name of a command, as in "what `plan emit` writes", is no command line.
bool is_line(const std::string& command) {
  if (has(command, "--trace")) return false;  // what only a profiler writes
  return command.rfind("plan ", 0) == 0 && (command.find(' ', 5) != std::string::npos);
}

void keep(const std::string& command, int status, std::vector<Documented>& out) {
  if (is_line(command)) out.push_back({completed(command), status});
}

/// Lines of a fenced or literal block: what begins with `$ ` is followed by what it prints.
void from_screen(const std::vector<std::string>& lines, std::size_t at, std::vector<Documented>& out) {
  const bool refused = at + 1 < lines.size() && lines[at + 1].rfind("error:", 0) == 0;
  keep(lines[at].substr(2), refused ? 1 : 0, out);
}

std::vector<Documented> from_readme() {
  std::vector<Documented> out;
  const std::vector<std::string> lines = lines_of(contents_of(kSource + "/README.md"));
  bool fenced = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line.rfind("```", 0) == 0) fenced = !fenced;
    if (line.rfind("$ plan", 0) == 0) from_screen(lines, i, out);
    if (fenced && line.rfind("plan ", 0) == 0) keep(line, 0, out);
    if (line.rfind("| `plan ", 0) == 0) keep(line.substr(3, line.find('`', 3) - 3), 0, out);
  }
  return out;
}

std::vector<Documented> from_manual(const fs::path& page) {
  std::vector<Documented> out;
  const std::vector<std::string> lines = lines_of(contents_of(page));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line.rfind("$ plan", 0) == 0) from_screen(lines, i, out);
    for (const char* macro : {".Dl ", ".Ql "})
      if (line.rfind(macro, 0) == 0) keep(line.substr(4), 0, out);
  }
  return out;
}

/// The examples of `plan --help`, and the words that `plan list` and `plan show` are said to take.
std::vector<Documented> from_help() {
  std::vector<Documented> out;
  for (const std::string& line : lines_of(run({"--help"}).out))
    if (line.rfind("  plan -", 0) == 0 || (line.rfind("  plan ", 0) == 0 && has(line, " --model ")))
      keep(line.substr(2), 0, out);
  std::istringstream listed{std::string(find_command("list")->synopsis)};
  for (std::string word; std::getline(listed, word, '|');) keep("plan list " + word, 0, out);
  for (const char* shown : {"model 405b", "gpu h100-sxm", "cluster dgx-h100", "formula activation"})
    keep(std::string("plan show ") + shown, 0, out);
  return out;
}

std::vector<Documented> documented() {
  std::vector<Documented> out = from_readme();
  std::vector<fs::path> pages;
  for (const fs::directory_entry& entry : fs::directory_iterator(kSource + "/man")) pages.push_back(entry.path());
  std::sort(pages.begin(), pages.end());
  for (const fs::path& page : pages)
    for (Documented& one : from_manual(page)) out.push_back(std::move(one));
  for (Documented& one : from_help()) out.push_back(std::move(one));
  return out;
}

/// The YAML block of README.md.
std::string readme_budget() {
  const std::string text = contents_of(kSource + "/README.md"), begin = "```yaml\n";
  const std::size_t at = text.find(begin);
  REQUIRE(at != std::string::npos);
  return text.substr(at + begin.size(), text.find("```", at + begin.size()) - at - begin.size());
}

constexpr const char* kNcclTests =
    "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20\n"
    "# Collective test starting: all_reduce_perf\n"
    "#  Rank  0 Group  0 Pid   1 on node0 device  0 [0x18] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   1 on node0 device  1 [0x2a] NVIDIA H100 80GB HBM3\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "     1048576        524288      half     sum      -1    20.00   52.43   52.43      0    20.00   52.43   52.43     "
    " "
    "0\n"
    "     2097152       1048576      half     sum      -1    30.00   69.91   69.91      0    30.00   69.91   69.91     "
    " "
    "0\n"
    "     4194304       2097152      half     sum      -1    50.00   83.89   83.89      0    50.00   83.89   83.89     "
    " "
    "0\n";

int shell(const std::string& command) {
  const std::string bin = fs::path(PLAN_BINARY).parent_path().string();
  std::ofstream("command.sh") << command << "\n";
  const std::string line = clean_environment(bin, "GITHUB_STEP_SUMMARY=summary.md");
  return WEXITSTATUS(std::system((line + "sh ./command.sh >out.txt 2>err.txt").c_str()));
}

/// The files that the pages name, each a real one.
void furnish(const Folder& folder) {
  const std::string script = contents_of(kSource + "/tests/published/launch/llama31-405b.sbatch");
  for (const char* name : {"train.sbatch", "run.sbatch"}) folder.write(name, script);
  folder.write("train.sh",
               "torchrun --nnodes $2 --nproc_per_node $3 pretrain.py --num-layers 32 --hidden-size 4096 "
               "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --bf16 "
               "--vocab-size 32000 --eval-interval 100\n");
  const std::string manual = contents_of(kSource + "/man/plan-emit.1");
  const std::size_t site = manual.find("work_dir: ");
  folder.write("site.yaml", manual.substr(site, manual.find(".Ed", site) - site));
  const std::string presets = contents_of(kSource + "/man/plan-preset.5");
  for (const char* file : {"name: ours", "name: both"}) {
    const std::size_t begin = presets.rfind("preset: ", presets.find(file));
    folder.write(std::string(file + 6) + ".yaml", presets.substr(begin, presets.find(".Ed", begin) - begin));
  }
  folder.write("config.json", contents_of(kSource + "/tests/presets/configs/llama3-8b.json"));
  folder.write("budgets/405b.yaml", readme_budget());
  const std::string runs = contents_of(kSource + "/tests/published/runs/megatron-readme.csv");
  folder.write("my-runs.csv", contents_of(kSource + "/tests/published/runs/selene.csv"));
  folder.write("tests/published/runs/megatron-readme.csv", runs);
  std::string log;
  for (int step = 1; step <= 20; ++step)
    log += " iteration " + std::to_string(step) + "/ 100 | elapsed time per iteration (ms): 46000.0 | lm loss: 1.0 |\n";
  folder.write("out.log", log);
  const fs::path tutorial = fs::path("/tmp/plan-tutorial");  // what its blocks make that are no commands of plan's
  fs::create_directories(tutorial);
  std::ofstream(tutorial / "out.log") << log;
  std::ofstream(tutorial / "budget.yaml") << "budget: 1\ngpus: 256 x h100-sxm\nlimits:\n  step_time: at most 40 s\n";
  folder.write("all_reduce.txt", kNcclTests);
  // Two ranks gather what passes the wire half as often as a reduction of as many bytes.
  std::string gather = replaced(replaced(kNcclTests, "all_reduce", "all_gather"), "   sum", "  none");
  constexpr const char* kRates[][2] = {
      {"52.43   52.43", "52.43   26.21"}, {"69.91   69.91", "69.91   34.95"}, {"83.89   83.89", "83.89   41.94"}};
  for (const auto& [both, own] : kRates) gather = replaced(gather, both, own);
  folder.write("all_gather.txt", gather);
  for (const char* set :
       {"plan --model 405b --gpus 16384 --json -o main.plan.json",
        "plan probe --import all_reduce.txt all_gather.txt -o node.yaml", "cp node.yaml cluster.yaml"})
    REQUIRE_MESSAGE(shell(set) == 0, set << "\n" << contents_of("err.txt"));
}

}  // namespace

TEST_CASE("documented commands end as their text implies") {
  const Folder folder;
  furnish(folder);
  std::set<std::string> done;
  for (const Documented& one : documented()) {
    if (!done.insert(one.command).second) continue;
    CAPTURE(one.command);
    const int status = shell(one.command);
    const bool measures =
        one.command.rfind("plan probe", 0) == 0 && !has(one.command, "--import") && !has(one.command, "--diff");
    const bool asks = one.command.rfind("plan estimate", 0) == 0 || one.command.rfind("plan check", 0) == 0 ||
                      one.command.rfind("plan diagnose", 0) == 0;
    const bool would = measures && has(one.command, "--check");
    const bool as_said =  // 3: no GPU here, and 1: that is what a check says
        status == one.status || (measures && status == 3) || ((asks || would) && status == 1);
    CHECK_MESSAGE(as_said, "status " << status << "\n" << contents_of("err.txt"));
  }
  CHECK(done.size() > 50);
}

TEST_CASE("no golden file freezes an error of a documented command") {
  std::set<std::string> good;
  for (const Documented& one : documented())
    if (one.status == 0) good.insert(one.command);
  for (const fs::directory_entry& entry : fs::directory_iterator(kSource + "/tests/golden")) {
    if (!entry.is_directory() || contents_of(entry.path() / "code") == "0\n") continue;
    for (const std::string& line : lines_of(contents_of(entry.path() / "cmd")))
      CHECK_MESSAGE(good.count(line) == 0, entry.path().filename().string());
  }
}
