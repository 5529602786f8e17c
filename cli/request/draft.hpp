#pragma once

// A problem while it is made of what was asked for: the steps of resolve_problem() build on each other and note the
// mistakes that they find.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/request/sources/request.hpp"
#include "formulas/names.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// A problem under construction with the mistakes found so far.
struct Draft {
  const Asked& asked;
  const Request& request;
  Problem problem{};
  Errors errors{};

  /// An input that nobody states.
  void assume(std::string key, std::string value, Origin origin, std::string where = {}, bool guessed = true) {
    problem.inputs.push_back({std::move(key), std::move(value), origin, std::move(where), {}, guessed});
  }
  /// A mistake about the words of some keys, which has the place of the first of them that was written.
  void refuse(Error error, std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys)
      if (const Word* word = asked.find(key); word != nullptr && error.place.file.empty()) error.place = word->place;
    errors.push_back(std::move(error));
  }
  void refuse_all(const Errors& all, std::initializer_list<std::string_view> keys) {
    for (const Error& error : all) refuse(error, keys);
  }
  /// One of a few words, or plan's default for it, which `out` holds.
  template <class E, std::size_t N>
  void settle(const char* key, const std::optional<Stated<E>>& stated, const Named<E> (&table)[N], E& out) {
    if (!stated) return assume(key, std::string(detail::name_in(table, out)), Origin::Default);
    out = stated->value;
    problem.inputs.push_back(stated->input);
  }
};

/// Notes that nothing says what must be known, with an example; a word that could not be read has been refused already.
void missing(Draft& draft, std::string_view key, const char* example);

/// The GPUs, their kinds and the network between them, a slice of TPUs' torus among them. In this order.
void resolve_gpus(Draft& draft);
void resolve_cluster(Draft& draft);
void resolve_slice(Draft& draft);
void resolve_reach(Draft& draft);
/// The memory of each node as a person states it, whatever the cluster's file says; of several kinds of GPU, of all.
void resolve_hosts(Draft& draft);
/// Says which numbers of a file differ from its preset's and change nothing.
void tell_unpriced(Draft& draft);
/// A checkpoint's name may say that its weights are stored in fewer bits, of which nothing is planned.
void tell_stored_format(Draft& draft);
/// Parts of a checkpoint beside its language model are in no figure; of how much that is, a thousandth is worth a word.
void tell_left_out(Draft& draft);
/// A table of learned positions has a row for each token of a sequence, whatever a preset or checkpoint of shorter ones
/// has.
void learn_positions(Draft& draft);
void resolve_pools(Draft& draft);
/// Nodes of as many GPUs as the files start ranks on, where the cluster is not named and only its GPU is known.
void resolve_nodes(Draft& draft);

}  // namespace plan
