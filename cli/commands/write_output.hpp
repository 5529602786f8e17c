#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/request/table/args.hpp"
#include "cli/terminal/output.hpp"

namespace plan {

/// What is wrong with writing to `path`: a file that the command reads, or, without `--force`, one of another kind than
/// `text`. Empty where nothing is.
[[nodiscard]] Errors judge_output(const Args& args, const std::string& path, std::string_view text);

/// `write_whole` of files that `judge_output` has nothing against.
[[nodiscard]] Result<bool> write_outputs(const Args& args, const std::vector<OutputFile>& files);

}  // namespace plan
