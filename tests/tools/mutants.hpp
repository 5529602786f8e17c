#pragma once
#pragma GCC system_header  // included before files whose warnings are of no interest here: they are changed

#include <algorithm>
#include <initializer_list>

/// Whether the change of this number is switched on in this process; notes that it is asked, if somebody wants to know
/// which test gets where (mutants.cpp).
extern "C" bool plan_mutant(int id) noexcept;

/// What mutants.py writes into a file in place of what may change. Each is what stood there until a change of its
/// number is switched on.
namespace mutants {

enum Kind { LT, GT, LE, GE, EQ, NE, ADD, SUB, MUL, DIV };

/// `a < Op<LE, GT>{3, 4} < b` is `a < b`, or `a <= b`, or `a > b`: the operator binds as the one that it stands for.
template <int First, int Second>
struct Op {
  int first, second;
};
template <class Left, int First, int Second>
struct Half {
  const Left& left;
  Op<First, Second> op;
};

template <int Kind, class Left, class Right>
auto applied(const Left& l, const Right& r) {
  if constexpr (Kind == LT) return l < r;
  if constexpr (Kind == GT) return l > r;
  if constexpr (Kind == LE) return l <= r;
  if constexpr (Kind == GE) return l >= r;
  if constexpr (Kind == EQ) return l == r;
  if constexpr (Kind == NE) return l != r;
  if constexpr (Kind == ADD) return l + r;
  if constexpr (Kind == SUB) return l - r;
  if constexpr (Kind == MUL) return l * r;
  if constexpr (Kind == DIV) return l / r;
}

#define PLAN_MUTANT_OPERATOR(sign)                                                                 \
  template <class Left, int First, int Second>                                                     \
  Half<Left, First, Second> operator sign(const Left& left, Op<First, Second> op) {                \
    return {left, op};                                                                             \
  }                                                                                                \
  template <class Left, int First, int Second, class Right>                                        \
  auto operator sign(Half<Left, First, Second> half, const Right& right) {                         \
    using Value = decltype(half.left sign right);                                                  \
    if (plan_mutant(half.op.first)) return static_cast<Value>(applied<First>(half.left, right));   \
    if (plan_mutant(half.op.second)) return static_cast<Value>(applied<Second>(half.left, right)); \
    return half.left sign right;                                                                   \
  }
PLAN_MUTANT_OPERATOR(<)
PLAN_MUTANT_OPERATOR(>)
PLAN_MUTANT_OPERATOR(<=)
PLAN_MUTANT_OPERATOR(>=)
PLAN_MUTANT_OPERATOR(==)
PLAN_MUTANT_OPERATOR(!=)
PLAN_MUTANT_OPERATOR(+)
PLAN_MUTANT_OPERATOR(-)
PLAN_MUTANT_OPERATOR(*)
PLAN_MUTANT_OPERATOR(/)
#undef PLAN_MUTANT_OPERATOR

/// A constant that becomes whatever its place wants, where a choice between two would be an int.
template <long Is, long First, long Second>
struct Number {
  int first, second;
  template <class Wanted>
  operator Wanted() const {
    return plan_mutant(first) ? Wanted(First) : plan_mutant(second) ? Wanted(Second) : Wanted(Is);
  }
};

template <bool Greatest>
struct MinMax {
  int id;
  template <class T>
  T operator()(const T& a, const T& b) const {
    return Greatest != plan_mutant(id) ? std::max(a, b) : std::min(a, b);
  }
  template <class T, class Less>
  T operator()(const T& a, const T& b, Less less) const {
    return Greatest != plan_mutant(id) ? std::max(a, b, less) : std::min(a, b, less);
  }
  template <class T>
  T operator()(std::initializer_list<T> of) const {
    return Greatest != plan_mutant(id) ? std::max(of) : std::min(of);
  }
  template <class T>
  T as(const T& a, const T& b) const {  // std::max<T>(a, b)
    return (*this)(a, b);
  }
};

/// One of two members; of two types it does not compile, for what both convert to would be gone when it is read.
template <class T>
auto& one_of(int id, T& first, T& second) {
  return plan_mutant(id) ? second : first;
}
template <class T>
auto& tp_or_pp(int id, T&& of) {
  return one_of(id, of.tp, of.pp);
}
template <class T>
auto& pp_or_tp(int id, T&& of) {
  return one_of(id, of.pp, of.tp);
}
template <class T>
auto& cp_or_dp(int id, T&& of) {
  return one_of(id, of.cp, of.dp);
}
template <class T>
auto& dp_or_cp(int id, T&& of) {
  return one_of(id, of.dp, of.cp);
}

}  // namespace mutants
