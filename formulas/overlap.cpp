// Words of messages that overlap. Tested by tests/cli/overlap_words_test.cpp.
#include "formulas/overlap.hpp"

namespace plan {

std::string overlap_words(unsigned parts) {
  std::string words;
  for (const OverlapPart& part : kOverlapParts)
    if ((parts & part.bit) != 0) words.append(words.empty() ? "" : "+").append(part.name);
  return words.empty() ? "none" : words;
}

}  // namespace plan
