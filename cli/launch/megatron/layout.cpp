// `--pipeline-model-parallel-layout`: which layers lie on which stage (plan-launch(7) 3.1.1, rule 23).
// Tested by tests/launch/megatron_layout_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "cli/launch/megatron/megatron.hpp"

namespace plan {
namespace {

constexpr std::size_t kMostSymbols = 100'000;

Error broken(std::string_view text, std::string_view why) {
  return {"bad_pipeline_layout", fmt::format("`--pipeline-model-parallel-layout {}`: {}", text, why), {}, {}};
}

/// Unrolls `(x)*n` and `x*n`; commas only separate. Nothing if it is malformed or absurdly long.
class Unroll {
 public:
  explicit Unroll(std::string_view text) : text_(text) {}
  std::optional<std::string> whole() {
    std::optional<std::string> out = sequence(0);
    return out && at_ == text_.size() ? out : std::nullopt;
  }

 private:
  std::optional<std::string> sequence(int depth) {
    std::string out;
    while (at_ < text_.size() && text_[at_] != ')') {
      std::string item;
      const char c = text_[at_++];
      if (c == '(') {
        if (depth > 8) return std::nullopt;
        const std::optional<std::string> inner = sequence(depth + 1);
        if (!inner || at_ >= text_.size()) return std::nullopt;
        ++at_;
        item = *inner;
      } else if (std::string_view("EtmL|").find(c) != std::string_view::npos) {
        item = std::string(1, c);
      } else if (c == ',' || std::isspace(static_cast<unsigned char>(c)) != 0) {
        continue;
      } else {
        return std::nullopt;
      }
      const std::optional<std::size_t> times = repeat();
      if (!times || (out.size() + item.size() * *times) > kMostSymbols) return std::nullopt;
      for (std::size_t i = 0; i < *times; ++i) out += item;
    }
    return out;
  }

  std::optional<std::size_t> repeat() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    ++at_;
    std::size_t value = 0;
    const std::size_t from = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 && value < kMostSymbols)
      value = value * 10 + static_cast<std::size_t>(text_[at_++] - '0');
    if (at_ == from) return std::nullopt;
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string decoder(int layers) { return layers == 0 ? "" : layers == 1 ? "t" : fmt::format("t*{}", layers); }

}  // namespace

std::string pipeline_layout_text(std::span<const int> chunk_layers, int mtp) {
  std::string out = "E";
  for (std::size_t i = 0; i < chunk_layers.size();) {
    if (i > 0) out += "|";
    std::size_t end = i + 1;  // runs of equal chunks in the middle
    const bool inner = i > 0 && i + 1 < chunk_layers.size();
    while (inner && end + 1 < chunk_layers.size() && chunk_layers[end] == chunk_layers[i]) ++end;
    if (end - i > 1)
      out += fmt::format("({}|)*{}{}", decoder(chunk_layers[i]), end - i - 1, decoder(chunk_layers[i]));
    else
      out += decoder(chunk_layers[i]);
    i = end;
  }
  return out + std::string(static_cast<std::size_t>(std::max(0, mtp)), 'm') + "L";
}

Result<PipelineLayout> read_pipeline_layout(std::string_view text, int layers, int mtp, int pp) {
  const std::optional<std::string> flat = Unroll(text).whole();
  if (!flat) return fail(broken(text, "only E, t, m, L, `|`, `,`, parentheses and `*n` may stand in it"));
  if (flat->empty() || flat->front() != 'E' || std::count(flat->begin(), flat->end(), 'E') != 1)
    return fail(broken(text, "the embedding E comes first, once"));
  if (flat->back() != 'L' || std::count(flat->begin(), flat->end(), 'L') != 1)
    return fail(broken(text, "the loss L comes last, once"));
  PipelineLayout out{{0}};
  std::vector<int>& chunks = out.chunks;
  int predictions = 0;
  for (const char c : *flat) {
    if (c == '|') chunks.push_back(0);
    if (c == 't' && predictions > 0) return fail(broken(text, "MTP layers come behind all decoder layers"));
    if (c == 't') ++chunks.back();
    if (c == 'm') {
      const int here = static_cast<int>(chunks.size()) - 1;
      if (predictions++ > 0 && out.mtp != here) return fail(broken(text, "all MTP layers stand on one stage"));
      out.mtp = here;
    }
  }
  const auto decoders = std::count(flat->begin(), flat->end(), 't');
  if (decoders != layers)
    return fail(broken(text, fmt::format("it holds {} decoder layers, the model {}", decoders, layers)));
  if (predictions != mtp)
    return fail(broken(text, fmt::format("it holds {} MTP layers, the model {}", predictions, mtp)));
  const int count = static_cast<int>(chunks.size());
  if (pp > 0 && count % pp != 0)
    return fail(broken(text, fmt::format("it has {} stages, no multiple of pp {}", count, pp)));
  if (pp > 1 && out.mtp >= 0 && out.mtp < count - pp)
    return fail(broken(text, "MTP layers stand in the last chunk of a rank"));
  if (pp > 1 && out.mtp >= 0 && out.mtp % pp == 0)
    return fail(broken(text, "MTP layers do not stand on the first rank"));
  return out;
}

}  // namespace plan
