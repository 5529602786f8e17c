// Families that people ask for and that have a part of a layer which no law here prices: they are refused by that
// part's name, never taken for the nearest family that is known. Sources: the modelling files of transformers 5.23, and
// of the checkpoint where it has none there. Tested by tests/presets/checkpoints_test.cpp.
#include "presets/unmodelled.hpp"

#include <string>

#include "formulas/words.hpp"

namespace plan {
namespace {

constexpr Unmodelled kUnmodelled[] = {
    {"arctic", "arctic", "a dense FFN beside the experts of a layer"},
    {"arctic", "snowflakearctic", "a dense FFN beside the experts of a layer"},
    {"bailing_hybrid", "ling2.5", "lightning attention, which is linear without a delta rule"},
    {"bailing_hybrid", "ring2.5", "lightning attention, which is linear without a delta rule"},
    {"bitnet", "bitnet", "weights of three values"},
    {"deepseek_v4", "deepseekv4", "attention to compressed keys, and hyper-connections between layers"},
    {"falcon_h1", "falconh1", "attention and Mamba-2 side by side in one layer"},
    {"falcon_mamba", "falconmamba", "Mamba-1"},
    {"gemma3n", "gemma3n", "embeddings of every layer, and layers that share keys and values"},
    {"gemma4", "diffusiongemma", "keys that are values too, and heads of another width in full attention"},
    {"gemma4", "gemma4", "keys that are values too, and heads of another width in full attention"},
    {"gemma4_unified", "", "keys that are values too, and heads of another width in full attention"},
    {"grok", "grok2", "a dense FFN beside the experts of a layer"},
    {"hunyuan", "hunyuana50b", "layers that share keys and values"},
    {"hunyuan", "hunyuana52b", "layers that share keys and values"},
    {"hunyuan", "hunyuanlarge", "layers that share keys and values"},
    {"hunyuan", "tencenthunyuanlarge", "layers that share keys and values"},
    {"jamba", "ai21jamba", "Mamba-1"},
    {"jamba", "jamba", "Mamba-1"},
    {"kimi_k3", "kimik3", "Kimi Delta Attention, whose gates have channels of their own"},
    {"kimi_linear", "kimilinear", "Kimi Delta Attention, whose gates have channels of their own"},
    {"lfm2", "lfm2", "short convolutions in place of attention"},
    {"lfm2_moe", "lfm2", "short convolutions in place of attention"},
    {"longcat_flash", "longcatflash", "two attentions a layer, and experts that do nothing"},
    {"mamba", "mamba", "Mamba-1"},
    {"mamba", "mamba2.8b", "Mamba-1"},
    {"mamba2", "mamba2", "Mamba-2 in every layer, and no attention"},
    {"mamba2", "mambacodestral", "Mamba-2 in every layer, and no attention"},
    {"mimo_v2_flash", "mimov2", "values narrower than keys"},
    {"minimax", "minimaxm1", "lightning attention, which is linear without a delta rule"},
    {"minimax", "minimaxtext01", "lightning attention, which is linear without a delta rule"},
    {"minimax_m3", "minimaxm3", "attention to chosen blocks of keys"},
    {"minimax_m3_vl", "minimaxm3", "attention to chosen blocks of keys"},
    {"mllama", "llama3.211b", "cross-attention to images"},
    {"mllama", "llama3.290b", "cross-attention to images"},
    {"mllama_text_model", "", "cross-attention to images"},
    {"nemotron-nas", "llama3.1nemotron51b", "layers that differ in heads and widths"},
    {"nemotron-nas", "llama3.1nemotronultra", "layers that differ in heads and widths"},
    {"nemotron-nas", "llama3.3nemotron", "layers that differ in heads and widths"},
    {"nemotron-nas", "llama31nemotron51b", "layers that differ in heads and widths"},
    {"nemotron-nas", "llama31nemotronultra", "layers that differ in heads and widths"},
    {"nemotron-nas", "llama33nemotron", "layers that differ in heads and widths"},
    {"nemotron-nas", "llamanemotron253b", "layers that differ in heads and widths"},
    {"nemotron-nas", "llamanemotron49b", "layers that differ in heads and widths"},
    {"nemotron-nas", "llamanemotronsuper", "layers that differ in heads and widths"},
    {"nemotron-nas", "llamanemotronultra", "layers that differ in heads and widths"},
    {"nemotron-nas", "nemotronsuper49b", "layers that differ in heads and widths"},
    {"nemotron-nas", "nemotronultra253b", "layers that differ in heads and widths"},
    {"openelm", "openelm", "layers that differ in heads and widths"},
    {"phi3small", "phi3small", "attention to chosen blocks of keys"},
    {"phi4flash", "phi4miniflash", "Mamba-1, and layers that share keys and values"},
    {"recurrent_gemma", "recurrentgemma", "gated recurrences in place of attention"},
    {"rwkv", "rwkv", "RWKV, which is neither attention nor Mamba"},
    {"step3", "step3", "queries from a low rank and one head of keys that they share"},
    {"step3_vl", "", "queries from a low rank and one head of keys that they share"},
    {"step3p5", "step3.5", "gates of every head, and other heads in layers with windows"},
    {"step3p7", "step3.7", "gates of every head, and other heads in layers with windows"},
    {"t5", "flant5", "an encoder beside the decoder"},
    {"t5", "t5", "an encoder beside the decoder"},
    {"xlstm", "xlstm", "xLSTM, which is neither attention nor Mamba"},
    {"zamba", "zamba", "Mamba-1, and one attention that several layers share"},
    {"zamba2", "zamba2", "one attention that several layers share"},
    {"zaya", "zaya", "attention in a convolved, compressed width"},
};

std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != '-' && c != '_') out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

}  // namespace

const Unmodelled* unmodelled_type(std::string_view type) {
  if (type.ends_with("_text")) type.remove_suffix(5);
  for (const Unmodelled& row : kUnmodelled)
    if (row.model_type == type) return &row;
  return nullptr;
}

const Unmodelled* unmodelled_name(std::string_view checkpoint) {
  const std::string word = plain(base_name(checkpoint));
  const Unmodelled* found = nullptr;
  for (const Unmodelled& row : kUnmodelled)
    if (!row.name.empty() && word.starts_with(row.name) && (!found || row.name.size() > found->name.size()))
      found = &row;
  return found;
}

}  // namespace plan
