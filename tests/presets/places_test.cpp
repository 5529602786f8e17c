// Where presets are looked for, and the place of what one of them names in vain.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "embedded_only.hpp"
#include "presets/store.hpp"
#include "temporary_folder.hpp"

namespace {

/// A variable of the environment, which is again as it was when the object goes away.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {
    if (const char* value = std::getenv(name)) before_ = value;
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  void set(const std::string& value) const { ::setenv(name_, value.c_str(), 1); }

 private:
  const char* name_;
  std::optional<std::string> before_{};
};

}  // namespace

TEST_CASE("the folders of presets are what stands between the colons, in its order, and nothing is no folder") {
  const Variable path("PLAN_PRESET_PATH"), data("XDG_DATA_HOME"), home("HOME");
  std::mt19937 random(20261129);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    std::vector<std::string> wanted;
    for (std::size_t parts = random() % 5, i = 0; i < parts; ++i) {
      const std::string part = random() % 3 == 0 ? "" : "/f" + std::to_string(random() % 100);
      text += (i == 0 ? "" : ":") + part;
      if (!part.empty()) wanted.push_back(part);
    }
    CAPTURE(text);
    path.set(text);
    CHECK(plan::StoreOptions::from_environment().path == wanted);
  }
  home.set("/home/of"), data.set("/data");
  CHECK(plan::StoreOptions::from_environment().data_home == "/data/plan/presets");
  data.set("");
  CHECK(plan::StoreOptions::from_environment().data_home == "/home/of/.local/share/plan/presets");
}

TEST_CASE("a table of rates that there is not is refused at the line that names it, whatever stands before") {
  const std::string key = "efficiency:";
  std::string right;
  for (const plan::PresetEntry& entry : plan::list_presets(plan::PresetKind::Gpu, plan::kEmbeddedOnly))
    if (entry.name == "h100-sxm") right = entry.text;
  const std::size_t at = right.find("\n" + key) + 1, behind = right.find('\n', at);
  REQUIRE(at > 0);
  const std::string whole = right.substr(0, at) + right.substr(std::min(behind + 1, right.size()));
  std::vector<std::size_t> begins{0};  // of lines without an indent, before which the key may stand
  for (std::size_t i = 0; i + 1 < whole.size(); ++i)
    if (whole[i] == '\n' && whole[i + 1] > ' ' && whole[i + 1] != '#') begins.push_back(i + 1);
  const plan::TemporaryFolder folder;
  for (const std::size_t begin : begins) {
    std::string text = whole;
    text.insert(begin, key + " nowhere\n");
    const std::string file = folder.write("mine.yaml", text);
    const auto gpu = plan::load_gpu(file, plan::kEmbeddedOnly);
    REQUIRE_FALSE(gpu.has_value());
    const plan::Error& error = gpu.error().front();
    CHECK(error.code == "unknown_efficiency");
    CHECK(error.place.file == file);
    CHECK(error.place.line == 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
    CHECK(error.place.column == 1);
    CHECK(error.place.text == key + " nowhere");
  }
}
