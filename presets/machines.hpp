#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

/// A machine as its cloud rents it: p5.48xlarge is eight of the GPU h100-sxm.
struct CloudMachine {
  std::string name{};
  int gpus = 0;
  std::string gpu{};      ///< name of a preset; of a chip, where none describes it
  bool described = true;  ///< a preset does
};

/// Every machine of presets/machines, cloud by cloud.
[[nodiscard]] const std::vector<CloudMachine>& machines();

/// What a file of that folder says.
[[nodiscard]] Result<std::vector<CloudMachine>> read_machines(std::string_view text, std::string file);

/// The machine of that name, or all whose names begin with it and go on behind a sign: `p4d` is p4d.24xlarge, `a3`
/// each of Google's A3. Case, hyphens, underscores, blanks and dots do not matter, nor does Azure's `Standard_`.
[[nodiscard]] std::vector<CloudMachine> machines_called(std::string_view word);

/// The largest of them where all have one kind of GPU; without a name if there is none, or several kinds.
[[nodiscard]] CloudMachine machine_called(std::string_view word);

/// What an error about a word says where it names machines of several kinds, or of a chip that no preset describes;
/// empty otherwise.
[[nodiscard]] std::string about_machines(std::string_view word);

}  // namespace plan
