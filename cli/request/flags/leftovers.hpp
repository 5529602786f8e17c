#pragma once

#include <string>
#include <vector>

#include "cli/request/flags/flag_meanings.hpp"
#include "cli/request/table/args.hpp"
#include "formulas/result.hpp"

namespace plan {

/// What is wrong with a word in the command line without a flag, and what its neighbours say was meant.
/// `words`: the whole line; `args`: what was read of it.
[[nodiscard]] Error unknown_word(const std::string& word, const std::vector<std::string>& words, const Args& args);

/// Whether a word comes after a flag that nobody knows, whose value it was meant to be.
[[nodiscard]] bool follows_stranger(const std::string& word, const std::vector<std::string>& leftovers,
                                    const std::vector<std::string>& words);

/// One error for each word that no option takes; the word after an unknown flag was meant as its value.
void judge_leftovers(const std::vector<std::string>& leftovers, const std::vector<std::string>& words, const Args& args,
                     const FlagMeanings& meanings, Errors& errors);

}  // namespace plan
