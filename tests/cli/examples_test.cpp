// The commands of tests/examples, run as a CI would: on the base branch and on a pull request that breaks a limit.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "check_files.hpp"
#include "clean_environment.hpp"
#include "contents.hpp"
#include "presets/yaml.hpp"

using namespace plan;
using namespace plan::checks;
namespace fs = std::filesystem;

namespace {

const std::string kExamples = PLAN_SOURCE_DIR "/tests/examples";

/// Every scalar under a key of this name, lists too, in the order written.
void values_of(const yaml::Node& node, const std::string& key, std::vector<std::string>& out) {
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const bool value = node.kind == yaml::Kind::Map && i % 2 == 1 && node.items[i - 1].text == key;
    if (value && node.items[i].kind == yaml::Kind::Scalar) out.push_back(node.items[i].text);
    if (value)
      for (const yaml::Node& item : node.items[i].items) out.push_back(item.text);
    values_of(node.items[i], key, out);
  }
}

std::vector<std::string> commands(const std::string& file, const std::string& key) {
  const Result<yaml::Document> document = yaml::parse(contents_of(kExamples + "/" + file), file);
  REQUIRE(document);
  std::vector<std::string> out;
  values_of(document->root, key, out);
  std::erase_if(out, [](const std::string& command) { return command.find("apt-get") != std::string::npos; });
  return out;
}

int shell(const std::string& command) {
  const std::string folder = fs::path(PLAN_BINARY).parent_path().string();
  const std::string line =
      clean_environment(folder, "GITHUB_STEP_SUMMARY=summary.md") + "sh -c '" + command + "' >>out.txt 2>>err.txt";
  return WEXITSTATUS(std::system(line.c_str()));
}

/// The repository of the example, and its base branch in base/.
void lay_out(const Folder& folder, const std::string& layout) {
  const std::string budget = contents_of(kExamples + "/budgets/pretrain.yaml");
  folder.write("base/budgets/pretrain.yaml", budget);
  std::string changed = budget;
  const std::string from = "mb1,zero1,recompute=full-1";
  REQUIRE(changed.find(from) != std::string::npos);
  folder.write("budgets/pretrain.yaml", changed.replace(changed.find(from), from.size(), layout));
}

}  // namespace

TEST_CASE("the examples' commands: the last one decides") {
  struct Case {
    const char *file, *key;
    std::size_t count;
  };
  for (const Case& one : {Case{"github-actions.yaml", "run", 4}, Case{"gitlab-ci.yaml", "script", 3},
                          Case{"pre-commit-config.yaml", "entry", 1}}) {
    CAPTURE(one.file);
    const std::vector<std::string> steps = commands(one.file, one.key);
    REQUIRE(steps.size() == one.count);
    for (const bool breaks : {false, true}) {
      const Folder folder;
      lay_out(folder, breaks ? "mb2,zero1" : "mb1,zero1,recompute=full-1");
      for (std::size_t i = 0; i < steps.size(); ++i) {
        CAPTURE(steps[i]);
        const int status = shell(steps[i]);
        CAPTURE(contents_of("err.txt"));
        CHECK(status == (breaks && i + 1 == steps.size() ? 1 : 0));
      }
      if (std::string(one.file) == "github-actions.yaml") {
        CHECK(contents_of("summary.md").starts_with(breaks ? "### plan check: " : "### plan check: all "));
        CHECK(Json::parse(contents_of("plan.sarif"))["runs"][0]["results"].empty() == !breaks);
        CHECK(
            (contents_of("out.txt").find("::error file=budgets/pretrain.yaml,line=15,title=memory.peak (pretrain)::") !=
             std::string::npos) == breaks);
      }
      if (std::string(one.file) == "gitlab-ci.yaml")
        CHECK(contents_of("plan.xml").find("<testsuites name=\"plan check\" tests=\"10\"") != std::string::npos);
    }
  }
}
