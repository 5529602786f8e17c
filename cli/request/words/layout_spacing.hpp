#pragma once

#include <string>
#include <string_view>

namespace plan {

/// `tp8-pp4`, `tp8xpp4`, `tp8/pp4` and `tp8pp4` with commas between the axes.
[[nodiscard]] std::string between_commas(std::string_view text);

/// As a report prints axes: `TP 8  CP 2 (ring)  PP 16 (vp 8)` is `tp8,cp2,ring,pp16,vp8`.
[[nodiscard]] std::string without_blanks(std::string_view text);

}  // namespace plan
