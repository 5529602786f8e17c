#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "formulas/textbook/formula.hpp"
#include "formulas/textbook/formula_units.hpp"
#include "formulas/units.hpp"

namespace plan {

/// Values of an entry's symbols, in their order.
using SymbolValues = std::span<const double>;
using Evaluate = double (*)(SymbolValues);

/// What lecture notes or a paper write instead, and why it differs: an equation on the same symbols, or a sentence.
struct Erratum {
  std::string_view where = {};
  std::string_view equation = {};  ///< the sentence, quoted or shortened, where `evaluate` is null
  std::string_view why = {};
  Evaluate evaluate = nullptr;  ///< of the equation
  std::string_view unit = {};   ///< that `evaluate` answers in
  constexpr explicit operator bool() const { return !where.empty(); }
};

/// A formula that can be looked up and evaluated by name.
struct CatalogEntry {
  Formula formula{};
  std::span<const Symbol> symbols{};
  Evaluate evaluate = nullptr;
  Erratum erratum{};
};

struct CatalogGroup {
  std::string_view name;   ///< one word
  std::string_view title;  ///< heading of `plan list formulas`
  std::span<const CatalogEntry> entries;
};

namespace detail {
template <class F>
struct Signature;
template <class R, class In>
struct Signature<R (*)(const In&)> {
  using Result = R;
  using Input = In;
};

/// Converts to double and to nothing else; counts the fields of an aggregate.
struct AnyDouble {
  template <class T>
  requires std::same_as<T, double>
  constexpr operator T() const { return 0; }
};
template <class Input, std::size_t... I>
constexpr bool has_fields(std::index_sequence<I...>) {
  return requires { Input{(static_cast<void>(I), AnyDouble{})...}; };
}
template <class Input, std::size_t N>
constexpr bool has_exactly = has_fields<Input>(std::make_index_sequence<N>{}) &&
                             !has_fields<Input>(std::make_index_sequence<N + 1>{});

template <class Input, std::size_t N = 1>
constexpr std::size_t field_count() {
  if constexpr (has_exactly<Input, N>) {
    return N;
  } else {
    return field_count<Input, N + 1>();
  }
}

template <auto Function, std::size_t... I>
double call(SymbolValues v, std::index_sequence<I...>) {
  using Input = typename Signature<decltype(Function)>::Input;
  return value_of(Function(Input{v[I]...}));
}

/// Not defined: calling it is how `entry` refuses to compile.
void the_unit_stated_is_not_that_of_the_type();
}  // namespace detail

/// A form to warn of, as a function of the same input as the right one.
template <auto Function>
constexpr Erratum erratum(std::string_view where, std::string_view equation, std::string_view why) {
  using Of = detail::Signature<decltype(Function)>;
  return {where, equation, why,
          [](SymbolValues v) {
            return detail::call<Function>(v, std::make_index_sequence<detail::field_count<typename Of::Input>()>{});
          },
          kUnitOf<typename Of::Result>};
}

/// A sentence to warn of, where there is no other equation.
constexpr Erratum misstatement(std::string_view where, std::string_view says, std::string_view why) {
  return {where, says, why, nullptr};
}

/// Puts a formula into a catalog. `Function` takes a struct of doubles whose fields are in the order of
/// `symbols` and returns the unit that `formula` states, a double where that is a count or a ratio.
template <auto Function, std::size_t N>
consteval CatalogEntry entry(const Formula& formula, const Symbol (&symbols)[N], Erratum erratum = {}) {
  using Of = detail::Signature<decltype(Function)>;
  static_assert(detail::has_exactly<typename Of::Input, N>, "one symbol for each field of the input");
  const bool same = erratum.evaluate == nullptr || erratum.unit == kUnitOf<typename Of::Result>;
  if (!answers_in<typename Of::Result>(formula.unit) || !same) detail::the_unit_stated_is_not_that_of_the_type();
  return {formula, symbols, [](SymbolValues v) { return detail::call<Function>(v, std::make_index_sequence<N>{}); },
          erratum};
}

}  // namespace plan
