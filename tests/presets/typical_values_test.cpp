// Numbers that stand where nobody states one: what a formula takes for a symbol, and the ends of a model file's counts.
#include <doctest/doctest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "formulas/textbook/catalog.hpp"
#include "presets/reader.hpp"
#include "presets/store.hpp"

using namespace plan;

TEST_CASE("what nobody states of a formula is not there: one rank, no latency, all of a whole") {
  // Patterns of a symbol's meaning, with the value that changes nothing. Groups of a node's size have eight by their
  // nature.
  const std::map<std::string, double> nothing{{"latency of a", 0},
                                              {"of the last bucket", 0},
                                              {"of the first bucket", 0},
                                              {"reduce-scatter of", 0},
                                              {"time to restart", 0},
                                              {"share of the SMs", 0},
                                              {"rate halves", 0},
                                              {"in units of head size", 0},
                                              {"power of CPUs", 0},
                                              {"if tied", 0},
                                              {"all shared experts", 0},
                                              {"0 first", 0},
                                              {"-parallel ranks", 1},
                                              {"-parallel replicas", 1},
                                              {"-parallel shards", 1},
                                              {"pipeline stages", 1},
                                              {"model chunks", 1},
                                              {"sequences", 1},
                                              {"micro-batches of a step", 1},
                                              {"instances of", 1},
                                              {"outer ranks", 1},
                                              {"share of it drawn", 1},
                                              {"recomputed share", 1},
                                              {"offloaded share", 1},
                                              {"usage effectiveness", 1},
                                              {"capacity factor", 1},
                                              {"goodput", 1},
                                              {"between checkpoints", 1},
                                              {"^nodes$", 1},
                                              {"^GPUs$", 1},
                                              {"^kernels$", 1}};
  std::set<std::string> seen;
  for (const CatalogEntry& entry : catalog())
    for (const Symbol& symbol : entry.symbols) {
      if (symbol.required() || symbol.meaning.starts_with("short sequences")) continue;
      for (const auto& [words, value] : nothing) {
        if (!std::regex_search(std::string(symbol.meaning), std::regex(words))) continue;
        CAPTURE(std::string(entry.formula.name));
        CAPTURE(std::string(symbol.meaning));
        CHECK(symbol.typical == value);
        seen.insert(words);
      }
    }
  CHECK(seen.size() == nothing.size());
}

TEST_CASE("typical values are those of the hardware and the model that they are said to be of") {
  const Gpu h100 = load_gpu("h100-sxm", StoreOptions{})->value;
  const Model v3 = load_model("deepseek-v3", StoreOptions{})->value;
  const LatentShape latent = [&] {
    for (const Layer& layer : v3.kinds)
      if (layer.mixer == Mixer::Latent) return layer.latent;
    return LatentShape{};
  }();
  const std::map<std::string, double> wanted{
      {"multiprocessors of one GPU; default H100", static_cast<double>(h100.sm_count)},
      {"memory bandwidth; default H100", h100.memory_bandwidth.value},
      {"cores of one multiprocessor; default fp32 cores of an H100", 128},  // NVIDIA's white paper of the H100, table 3
      {"query rank", static_cast<double>(latent.q_rank)},
      {"key-value rank", static_cast<double>(latent.kv_rank)},
      {"rotated head dimension", static_cast<double>(latent.rope_dim)},
      {"head dimension without rotation", static_cast<double>(latent.nope_dim)},
      {"value head dimension", static_cast<double>(latent.value_dim)}};
  std::set<std::string> seen;
  for (const CatalogEntry& entry : catalog())
    for (const Symbol& symbol : entry.symbols)
      if (const auto row = wanted.find(std::string(symbol.meaning)); row != wanted.end() && !symbol.required()) {
        CAPTURE(row->first);
        CHECK(symbol.typical == row->second);
        seen.insert(row->first);
      } else if (!symbol.required() && symbol.meaning.find("default H100 in bf16") != std::string_view::npos) {
        CHECK(symbol.typical == doctest::Approx(h100.peak[static_cast<std::size_t>(DType::Bf16)].value).epsilon(2e-4));
      }
  CHECK(seen.size() == wanted.size());
}

TEST_CASE("bytes that nobody states are those of mixed precision, and groups are as wide as a node") {
  const Gpu h100 = load_gpu("h100-sxm", StoreOptions{})->value;
  const double node = h100.scale_up_size, bf16 = 2, fp32 = 4;
  // Weights in bf16, and Adam's master weights and both moments in fp32 (ZeRO, arXiv:1910.02054, section 3.1).
  const std::map<std::string, double> wanted{
      {"bytes of an element", bf16},      {"bytes of a weight", bf16},
      {"bytes of a master weight", fp32}, {"bytes of a first moment", fp32},
      {"bytes of a second moment", fp32}, {"bytes of optimizer states a parameter", 3 * fp32},
      {"GPUs of a node", node},           {"inner ranks", node},
      {"shards in a group", node},        {"ranks that share one copy of the states", node}};
  std::set<std::string> seen;
  int gradients = 0;
  for (const CatalogEntry& entry : catalog())
    for (const Symbol& symbol : entry.symbols) {
      if (symbol.required()) continue;
      CAPTURE(std::string(entry.formula.name));
      CAPTURE(std::string(symbol.meaning));
      if (const auto row = wanted.find(std::string(symbol.meaning)); row != wanted.end()) {
        CHECK(symbol.typical == row->second);
        seen.insert(row->first);
      } else if (symbol.meaning == "bytes of a gradient" || symbol.meaning == "bytes of a reduced gradient") {
        // PyTorch's FSDP reduces gradients in the precision of the weights unless told otherwise; Megatron-LM adds them
        // up in fp32, and torchtitan tells FSDP to (mixed_precision_reduce).
        const bool fsdp = entry.formula.name.find("sdp") != std::string_view::npos;
        const bool told = entry.formula.source.find("torchtitan") != std::string_view::npos;
        CHECK(symbol.typical == (fsdp && !told ? bf16 : fp32));
        ++gradients;
      }
    }
  CHECK(seen.size() == wanted.size());
  CHECK(gradients >= 5);
}

TEST_CASE("every count of every section of a model file begins at one, but those where nought means none") {
  std::set<std::string> refused, taken;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, StoreOptions{})) {
    std::istringstream file(entry.text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    for (std::string& line : lines) {
      std::smatch found;
      if (!std::regex_search(line, found, std::regex("^( {0,2})([a-z_0-9]+): ([0-9]+)( tokens)?( *#.*)?$"))) continue;
      const std::string before = line, key = found[2], unit = found[4];
      const std::string margin = found[1];
      if (key == "extra_parameters") continue;  // a number of parameters, not of anything that is counted in a layer
      if (refused.count(key) + taken.count(key) > 0) continue;
      const auto out_of_range = [&](const char* value) {
        line = margin + key + ": " + value + unit;
        std::string text;
        for (const std::string& one : lines) text += one + "\n";
        line = before;
        const Result<Model> model = read_model(text, "m.yaml");
        for (const Error& error : model ? Errors{} : model.error())
          if (error.code == "out_of_range") return true;
        return false;
      };
      CAPTURE(key);
      CHECK_FALSE(out_of_range("1"));
      CHECK(out_of_range("99999999999"));
      (out_of_range("0") ? refused : taken).insert(key);
    }
  }
  // An indexer, a window, a latent width, shared experts, the rotated and the other part of a head may be missing.
  std::string all;
  for (const std::string& key : taken) all += key + " ";
  CAPTURE(all);
  CHECK(taken == std::set<std::string>{"index_dim", "index_heads", "index_top_k", "latent", "nope_dim", "norms",
                                       "positions", "q_rank", "rope_dim", "shared_width", "window"});
  CHECK(refused.size() >= 19);
}
