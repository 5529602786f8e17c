// Pods with GPUs in manifests of Kubernetes: a PyTorchJob's replicas, a Job's parallel pods, Volcano's tasks, a JobSet.
// Tested by tests/launch/manifests_test.cpp.
#include "cli/launch/scripts/pods.hpp"

#include <algorithm>
#include <utility>

#include "cli/shell/statements.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"

namespace plan {
namespace {

using shell::count_of;
using yaml::Node;

/// A number that a key states, and where.
struct Stated {
  int number = 0;
  int line = 0;
};

Stated stated(const Node& map, std::string_view key) {
  const Node* value = value_of(map, key);
  return value == nullptr ? Stated{} : Stated{count_of(value->text), value->line};
}

/// `nvidia.com/gpu: 8` of a container's limits, or of what it asks for.
Stated gpus_of_container(const Node& container, std::string_view resources = "resources") {
  const Node* all = value_of(container, resources);
  if (all == nullptr) return {};
  for (const char* part : {"limits", "requests"})
    if (const Node* amounts = value_of(*all, part); amounts != nullptr)
      for (const char* gpu : {"nvidia.com/gpu", "amd.com/gpu"})
        if (const Stated found = stated(*amounts, gpu); found.number > 0) return found;
  return {};
}

/// GPUs of the containers of a pod, whose template holds `containers:`.
Stated gpus_of_pod(const Node& pod) {
  Stated all;
  if (const Node* containers = value_of(pod, "containers"); containers != nullptr)
    for (const Node& container : containers->items)
      if (const Stated one = gpus_of_container(container); one.number > 0)
        all.number = std::min(all.number + one.number, shell::kMostCounted), all.line = one.line;
  return all;
}

void add(Pods& pods, std::int64_t copies, int line, const Stated& gpus) {
  pods.gpus = pods.count == 0 || pods.gpus == gpus.number ? gpus.number : 0;
  pods.count = static_cast<int>(std::min<std::int64_t>(pods.count + copies, shell::kMostCounted));
  pods.line = line > 0 ? line : gpus.line;
}

/// Pods below a node, of which what lies above starts so many copies. As deep as the document, which is bounded.
// NOLINTNEXTLINE(misc-no-recursion)
void add_pods(Pods& pods, const Node& node, std::int64_t copies, int line) {
  if (const Stated gpus = gpus_of_pod(node); gpus.number > 0) return add(pods, copies, line, gpus);
  // What a map says of its copies goes for the pods of its `template:`, and for no others.
  for (const char* key : {"replicas", "parallelism"})
    if (const Stated own = stated(node, key); own.number > 0 && value_of(node, "template") != nullptr)
      copies = std::min<std::int64_t>(copies * own.number, shell::kMostCounted), line = own.line;
  for (const Node& item : node.items) add_pods(pods, item, copies, line);
}

/// Kubeflow Trainer's `trainer:` has neither pods nor containers.
void add_trainer(Pods& pods, const Node& document) {
  const Node* spec = value_of(document, "spec");
  const Node* trainer = spec == nullptr ? nullptr : value_of(*spec, "trainer");
  if (trainer == nullptr) return;
  const Stated nodes = stated(*trainer, "numNodes");
  pods.ranks = stated(*trainer, "numProcPerNode").number;
  const Stated gpus = gpus_of_container(*trainer, "resourcesPerNode");
  if (nodes.number > 0 || pods.ranks > 0 || gpus.number > 0) add(pods, nodes.number, nodes.line, gpus);
}

}  // namespace

const Node* value_of(const Node& map, std::string_view key) {
  if (map.kind != yaml::Kind::Map) return nullptr;
  for (std::size_t i = 0; i + 1 < map.items.size(); i += 2)
    if (map.items[i].text == key) return &map.items[i + 1];
  return nullptr;
}

bool is_kubernetes(const Node& document) {
  return value_of(document, "apiVersion") != nullptr && value_of(document, "kind") != nullptr;
}

std::vector<Node> documents_of(const std::string& text, const std::string& path) {
  std::vector<Node> documents;
  std::string document, above;  // an empty line for each that is above
  const auto close = [&] {
    if (trim(document, " \t\r\n").empty()) return;
    if (Result<yaml::Document> parsed = yaml::parse_with_anchors(above + document, path))
      documents.push_back(std::move(parsed->root));
  };
  for (const std::string_view line : split(text, "\n")) {
    if (line.starts_with("---") && trim(line.substr(3), " \t\r").empty()) {
      close();
      above.append(static_cast<std::size_t>(std::count(document.begin(), document.end(), '\n')) + 1, '\n');
      document.clear();
      continue;
    }
    document.append(line).push_back('\n');
  }
  close();
  return documents;
}

Pods pods_of(const std::string& text, const std::string& path) {
  Pods pods;
  for (const Node& document : documents_of(text, path)) {
    if (!is_kubernetes(document)) continue;
    const std::string& kind = value_of(document, "kind")->text;
    // github.com/kubeflow/trainer, its torch plugin; training-operator's pkg/constants/constants.go, and for DLRover
    // dlrover/python/master/scaler/pod_scaler.py.
    const bool tells = kind == "TrainJob" || kind == "PyTorchJob" || kind == "ElasticJob";
    pods.hand_to_torchrun |= tells;
    if (kind == "TrainJob") add_trainer(pods, document);
    if (const Node* spec = value_of(document, "spec"); spec != nullptr && tells && pods.ranks == 0)
      pods.ranks = stated(*spec, "nprocPerNode").number;
    add_pods(pods, document, 1, 0);
  }
  return pods;
}

}  // namespace plan
