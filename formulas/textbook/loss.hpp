#pragma once

#include <span>

#include "formulas/textbook/catalog_entry.hpp"

/// How low the loss of a run gets (plan-formulas(7) G).
namespace plan {

struct ExpectedLossInput {
  double parameters = 0;  ///< N
  double tokens = 0;      ///< D
};
inline constexpr Formula kExpectedLoss{"expected-loss",
                                       "Loss of a dense decoder after its training",
                                       "1.69 + 406.4/N^0.34 + 410.7/D^0.28",
                                       "nats a token",
                                       "Hoffmann et al. 2022, arXiv:2203.15556",
                                       "On the authors' text and vocabulary: other data has another floor than 1.69."};
[[nodiscard]] double expected_loss(const ExpectedLossInput& in);

[[nodiscard]] std::span<const CatalogEntry> loss_formulas();

}  // namespace plan
