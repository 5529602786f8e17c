#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "presets/yaml.hpp"

namespace plan {

/// The value of a key of a map; null where there is none.
[[nodiscard]] const yaml::Node* value_of(const yaml::Node& map, std::string_view key);

/// What stands under a key of what stands under another, from the outermost on; null where one is missing, or without
/// `node`.
[[nodiscard]] const yaml::Node* below(const yaml::Node* node, std::initializer_list<std::string_view> keys);
/// Its text; empty where there is none.
[[nodiscard]] std::string text_below(const yaml::Node& node, std::initializer_list<std::string_view> keys);

/// A document of a manifest, or an object in one of kind List, on lines of the file.
struct ManifestDocument {
  yaml::Node root{};
  int first = 0, last = 0;
};

/// The documents of a manifest, between lines `---`, each with the line numbers of the file.
struct ManifestDocuments {
  std::vector<ManifestDocument> all{};
  Errors broken{};  ///< of those that are no YAML, such as templates of Helm's
};
[[nodiscard]] ManifestDocuments documents_of(const std::string& text, const std::string& path);

/// Whether a document describes an object of Kubernetes.
[[nodiscard]] bool is_kubernetes(const yaml::Node& document);

/// The pods with GPUs that a manifest of Kubernetes starts.
struct Pods {
  int count = 0;                  ///< 0: none, or not stated in numbers
  int gpus = 0;                   ///< of each, by its limits; 0: not stated, or they differ
  int fewest = 0;                 ///< the least that one has
  int ranks = 0;                  ///< processes of each, where the job states them itself (`nprocPerNode`)
  bool hand_to_torchrun = false;  ///< the operator tells torchrun of nodes and processes, in PET_* variables
  int line = 0;                   ///< where the last number of copies is, else the GPUs
  std::string unread{};           ///< a number of copies that is none, `replicas: ${WORKERS}`; empty: none
  int unread_line = 0;
  const char* word = "pod";  ///< what the manifest calls one
};
/// The pods of a manifest that holds one job, an experiment of Beaker's of one task included, and of a TrainJob the
/// runtime that it names, if at all.
[[nodiscard]] Pods pods_of(const std::string& text, const std::string& path);

}  // namespace plan
