#pragma once

#include <string>
#include <vector>

#include "cli/request/flags/flag_meanings.hpp"
#include "cli/request/table/args.hpp"
#include "formulas/result.hpp"

namespace plan {

/// Adds that a word has no meaning where it is, with the smallest change that gives it one. Words of one value with
/// blanks, which one change puts right, are one mistake.
void add_unknown_word(const std::string& word, const std::vector<std::string>& words, const Args& args, Errors& errors);

/// Whether a word comes after a flag that nobody knows, whose value it was meant to be.
[[nodiscard]] bool follows_stranger(const std::string& word, const std::vector<std::string>& leftovers,
                                    const std::vector<std::string>& words);

/// One error for each word that no option takes; the word after an unknown flag was meant as its value.
void judge_leftovers(const std::vector<std::string>& leftovers, const std::vector<std::string>& words, const Args& args,
                     const FlagMeanings& meanings, Errors& errors);

}  // namespace plan
