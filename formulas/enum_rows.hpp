#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

/// Tables with one row for each value of an enumeration, and structs with one row for each member: a value that was
/// added without its row would be read beyond the table, a member without one would be written, compared and searched
/// nowhere. Both stop the build here.
namespace plan {

/// Does an enumerator have the value? Compilers print one by its name, any other number as a cast: `(plan::Norm)7`.
template <auto Value>
[[nodiscard]] consteval bool is_enumerator() {
  const std::string_view text = __PRETTY_FUNCTION__;
  return text[text.rfind(" = ") + 3] != '(';
}

/// Are there as many enumerators as rows, from 0 on?
template <class E, std::size_t Rows>
inline constexpr bool kRowForEach = []<std::size_t... I>(std::index_sequence<I...>) {
  return (... && is_enumerator<static_cast<E>(I)>()) && !is_enumerator<static_cast<E>(Rows)>();
}
(std::make_index_sequence<Rows>());

/// Is there a row for every enumerator of a set of bits, from 1 on?
template <class E, std::size_t Rows>
inline constexpr bool kRowForEachBit = []<std::size_t... I>(std::index_sequence<I...>) {
  return (... && is_enumerator<static_cast<E>(1u << I)>()) && !is_enumerator<static_cast<E>(1u << Rows)>();
}
(std::make_index_sequence<Rows>());

namespace detail {
struct AnyMember {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): what initialises a member of any type
};
template <class T, std::size_t Count>
inline constexpr bool kHasMembers = []<std::size_t... I>(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyMember{})...}; };
}
(std::make_index_sequence<Count>());
}  // namespace detail

/// Does an aggregate have so many members?
template <class T, std::size_t Count>
inline constexpr bool kMembers = detail::kHasMembers<T, Count> && !detail::kHasMembers<T, Count + 1>;

}  // namespace plan
