#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

struct OutputFile {
  std::string path{};
  std::string_view text{};
  bool executable = false;
};

/// Writes all files whole or none at all: temporary files of fresh names beside them, on the disk before they are
/// renamed, with the mode of what they replace. A link is kept and what it leads to is written. Devices and pipes are
/// written to directly. Fails with `cannot_write`.
[[nodiscard]] Result<bool> write_whole(const std::vector<OutputFile>& files);
[[nodiscard]] Result<bool> write_whole(const std::string& path, std::string_view text);

/// What sort of file a text is, in words for a message: `JSON of schema plan/1`, `a script`, `YAML`; empty for an empty
/// one. Two texts of one kind may replace each other.
[[nodiscard]] std::string kind_of(std::string_view text);

/// Text for a person, without what a terminal or a continuous-integration service would obey: control characters but
/// ends of lines, tabs and, with `color`, colours become `?`; `::error` at the start of a line and `##[command]` get a
/// backslash. Names from files and command lines appear in our lines, whoever wrote them.
[[nodiscard]] std::string for_people(std::string_view text, bool color);

/// Is there a control character (C0, DEL or C1) in a word?
[[nodiscard]] bool has_controls(std::string_view word);

/// `text` with every byte that is not UTF-8 as `?`: names of files may hold any.
[[nodiscard]] std::string as_utf8(std::string text);

/// Writes all of `text` to a descriptor. A reader that has gone away is no error.
[[nodiscard]] bool write_all(int descriptor, std::string_view text);

}  // namespace plan
