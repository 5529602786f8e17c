// What every preset begins with: a file of one kind where another is asked for.
#include "presets/header.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "embedded_only.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

using plan::PresetEntry;
using plan::PresetKind;

TEST_CASE("a file of another kind is one mistake, which says where it goes") {
  const plan::GpuLookup none = [](std::string_view) { return plan::fail(plan::Error{"unknown_gpu", "none"}); };
  const std::pair<PresetKind, const char*> kinds[] = {
      {PresetKind::Model, "`--model`"}, {PresetKind::Gpu, "`--gpu`"}, {PresetKind::Cluster, "`--cluster`"}};
  for (const auto& [kind, flag] : kinds)
    for (const PresetEntry& entry : plan::list_presets(kind, plan::kEmbeddedOnly)) {
      const auto judge = [&, own = kind, where = flag](PresetKind reader, const plan::Errors& errors) {
        if (reader == own) return;
        REQUIRE(errors.size() == 1);
        CHECK(errors.front().code == "wrong_preset");
        CHECK(errors.front().help.front().find(where) != std::string::npos);
      };
      const auto errors_of = [](const auto& read) { return read ? plan::Errors{} : read.error(); };
      judge(PresetKind::Model, errors_of(plan::read_model(std::string(entry.text), "f.yaml")));
      judge(PresetKind::Gpu, errors_of(plan::read_gpu(std::string(entry.text), "f.yaml")));
      judge(PresetKind::Cluster, errors_of(plan::read_cluster(std::string(entry.text), "f.yaml", none)));
    }
}
