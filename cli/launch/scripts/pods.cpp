// Pods with GPUs in manifests of Kubernetes: a PyTorchJob's replicas, a Job's parallel pods, Volcano's tasks, a JobSet.
// Tested by tests/launch/manifests_test.cpp.
#include "cli/launch/scripts/pods.hpp"

#include <fmt/core.h>

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
  int line = 0;  ///< 0: the key is not there
};

Stated stated(const Node& map, std::string_view key) {
  const Node* value = value_of(map, key);
  return value == nullptr ? Stated{} : Stated{count_of(value->text), value->line};
}

/// The same of copies or processes, which may be none (0) or, where `words` are the operator's own, one of those.
Stated counted(Pods& pods, const Node& map, std::string_view key, std::string_view words = {}) {
  const Node* value = value_of(map, key);
  if (value == nullptr || value->kind == yaml::Kind::Null) return {};
  const Stated found{count_of(value->text), value->line};
  const bool none = !value->text.empty() && value->text.find_first_not_of('0') == std::string::npos;
  const bool word = !value->text.empty() && words.find(value->text) != std::string_view::npos;
  if (found.number == 0 && !none && !word && pods.unread.empty())
    pods.unread = fmt::format("{}: {}", key, yaml::printable(value->text)), pods.unread_line = value->line;
  return found;
}
constexpr std::string_view kProcesses = "auto gpu cpu";  // of torchrun's --nproc-per-node

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

/// GPUs of the first pod below a node that has some. As deep as the document, which is bounded.
// NOLINTNEXTLINE(misc-no-recursion)
Stated gpus_below(const Node& node) {
  Stated found = gpus_of_pod(node);
  for (std::size_t i = 0; found.number == 0 && i < node.items.size(); ++i) found = gpus_below(node.items[i]);
  return found;
}

void add(Pods& pods, std::int64_t copies, int line, const Stated& gpus) {
  if (copies == 0) return;
  pods.fewest = pods.count == 0 ? gpus.number : std::min(pods.fewest, gpus.number);
  pods.gpus = pods.count == 0 || pods.gpus == gpus.number ? gpus.number : 0;
  pods.count = static_cast<int>(std::min<std::int64_t>(pods.count + copies, shell::kMostCounted));
  pods.line = line > 0 ? line : gpus.line;
}

/// The copies that a pod's owner has, and the line of the last number.
struct Copies {
  std::int64_t number = 1;
  int line = 0;
  void times(const Stated& own) {
    if (own.line == 0) return;
    number = std::min<std::int64_t>(number * own.number, shell::kMostCounted), line = own.line;
  }
};

void add_pods(Pods& pods, const Node& node, Copies copies);

/// `replicas:` groups of `size:` pods, of which the first is the leader: a worker's copy where it has no template.
void add_leaders_and_workers(Pods& pods, const Node& group, Copies copies) {
  const Node *leader = value_of(group, "leaderTemplate"), *worker = value_of(group, "workerTemplate");
  if (leader != nullptr) add_pods(pods, *leader, copies);
  Stated size = counted(pods, group, "size");
  if (leader != nullptr) size.number = std::max(0, size.number - 1);
  copies.times(size);
  if (worker != nullptr) add_pods(pods, *worker, copies);
}

/// Pods below a node, of which what lies above starts so many copies. As deep as the document, which is bounded.
// NOLINTNEXTLINE(misc-no-recursion)
void add_pods(Pods& pods, const Node& node, Copies copies) {
  if (const Stated gpus = gpus_of_pod(node); gpus.number > 0) return add(pods, copies.number, copies.line, gpus);
  if (const Node* group = value_of(node, "leaderWorkerTemplate"); group != nullptr) {
    copies.times(counted(pods, node, "replicas"));
    return add_leaders_and_workers(pods, *group, copies);
  }
  // What a map says of its copies goes for the pods of its `template:`, and for no others.
  for (const char* key : {"replicas", "parallelism"})
    if (const Node* below = value_of(node, "template"); below != nullptr && gpus_below(*below).number > 0)
      copies.times(counted(pods, node, key));
  for (const Node& item : node.items) add_pods(pods, item, copies);
}

/// A number of the TrainJob's `trainer:`, else of the policy of the runtime that it names.
Stated of_trainer(Pods& pods, const Node* trainer, const Node* policy, std::string_view key,
                  std::string_view words = {}) {
  Stated found;
  if (trainer != nullptr) found = counted(pods, *trainer, key, words);
  if (found.line == 0 && policy != nullptr) found = counted(pods, *policy, key, words);
  return found;
}

/// Kubeflow Trainer's job: as many nodes as `trainer:` or the runtime says, whose pods the runtime and
/// `podTemplateOverrides:` describe once more.
void add_train_job(Pods& pods, const Node& job, const Node* runtime) {
  const Node *trainer = below(&job, {"spec", "trainer"}), *policy = below(runtime, {"spec", "mlPolicy"});
  const Stated nodes = of_trainer(pods, trainer, policy, "numNodes");
  pods.ranks = of_trainer(pods, trainer, below(policy, {"torch"}), "numProcPerNode", kProcesses).number;
  Stated gpus = trainer == nullptr ? Stated{} : gpus_of_container(*trainer, "resourcesPerNode");
  if (gpus.number == 0) gpus = gpus_below(job);
  if (gpus.number == 0 && runtime != nullptr) gpus = gpus_below(*runtime);
  add(pods, nodes.number, nodes.line, gpus);
  if (nodes.number == 0) pods.gpus = gpus.number;
}

/// `replicas:` of the one task of Beaker's and its `gpuCount:`.
void add_task(Pods& pods, const Node& experiment) {
  const Node *tasks = value_of(experiment, "tasks"), *version = value_of(experiment, "version");
  if (version == nullptr || tasks == nullptr || tasks->kind != yaml::Kind::Sequence || tasks->items.size() != 1) return;
  const Node* resources = value_of(tasks->items.front(), "resources");
  const Stated gpus = resources == nullptr ? Stated{} : stated(*resources, "gpuCount");
  if (gpus.number == 0) return;
  pods.word = "replica";
  Copies copies;
  copies.times(counted(pods, tasks->items.front(), "replicas"));
  add(pods, copies.number, copies.line, gpus);
}

/// Line numbers of a document that starts so many lines below the file's first. As deep as it, which is bounded.
// NOLINTNEXTLINE(misc-no-recursion)
void shift(Node& node, int lines) {
  node.line += lines;
  for (Node& item : node.items) shift(item, lines);
}

/// What is wrong with a document, on the line of the file; a template is said to be one.
Errors shifted(Errors errors, int lines, std::string_view document, const std::string& path) {
  for (Error& error : errors) error.place.line += error.place.line > 0 ? lines : 0;
  const std::size_t open = document.find("{{");
  if (open == std::string_view::npos) return errors;
  const auto line =
      lines + 1 +
      static_cast<int>(std::count(document.begin(), document.begin() + static_cast<std::ptrdiff_t>(open), '\n'));
  const std::string_view rest = document.substr(open);
  const std::string word = yaml::printable(rest.substr(0, std::min(rest.find("}}"), rest.size() - 2) + 2));
  return {{"template_not_rendered",
           fmt::format("{}:{}: `{}` is a template's, whose value is not known", path, line, word),
           {},
           {"give the file that comes of the template, as `helm template` prints it"}}};
}

/// The objects in a document of kind List, each on lines of its own; else the document.
void add_objects(std::vector<ManifestDocument>& all, ManifestDocument document) {
  Node* items = nullptr;
  const Node* kind = value_of(document.root, "kind");
  if (kind != nullptr && kind->text.ends_with("List"))
    for (std::size_t i = 0; i + 1 < document.root.items.size(); i += 2)
      if (document.root.items[i].text == "items") items = &document.root.items[i + 1];
  if (document.root.kind == yaml::Kind::Sequence) items = &document.root;  // of a list whose head was left out
  const auto at_or_above = [](const Node& a, const Node& b) { return a.line >= b.line; };
  if (items == nullptr || items->kind != yaml::Kind::Sequence || items->items.empty() ||
      std::adjacent_find(items->items.begin(), items->items.end(), at_or_above) != items->items.end())
    return all.push_back(std::move(document));
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    const bool end = i + 1 == items->items.size();
    const int first = items->items[i].line;
    all.push_back({std::move(items->items[i]), first, end ? document.last : items->items[i + 1].line - 1});
  }
}

/// `---`, also in front of a comment.
bool separates(std::string_view line) {
  if (!line.starts_with("---")) return false;
  const std::string_view rest = line.substr(3);
  const std::string_view word = trim(rest, " \t\r");
  return word.empty() || (word.front() == '#' && rest.front() != '#');
}

}  // namespace

const Node* value_of(const Node& map, std::string_view key) {
  if (map.kind != yaml::Kind::Map) return nullptr;
  for (std::size_t i = 0; i + 1 < map.items.size(); i += 2)
    if (map.items[i].text == key) return &map.items[i + 1];
  return nullptr;
}

const Node* below(const Node* node, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) node = node == nullptr ? nullptr : value_of(*node, key);
  return node;
}

std::string text_below(const Node& node, std::initializer_list<std::string_view> keys) {
  const Node* found = below(&node, keys);
  return found == nullptr ? std::string() : found->text;
}

bool is_kubernetes(const Node& document) {
  return value_of(document, "apiVersion") != nullptr && value_of(document, "kind") != nullptr;
}

ManifestDocuments documents_of(const std::string& text, const std::string& path) {
  ManifestDocuments out;
  std::string document;
  int above = 0, lines = 0;  // of the file, in front of the document and to its end
  const auto close = [&] {
    if (!trim(document, " \t\r\n").empty()) {
      if (Result<yaml::Document> parsed = yaml::parse_with_anchors(document, path)) {
        shift(parsed->root, above);
        add_objects(out.all, {std::move(parsed->root), above + 1, lines});
      } else {
        for (Error& error : shifted(parsed.error(), above, document, path)) out.broken.push_back(std::move(error));
      }
    }
    document.clear();
  };
  for (const std::string_view line : split(text, "\n")) {
    const bool between = separates(line);
    if (between) close();
    ++lines;
    if (between)
      above = lines;
    else
      document.append(line).push_back('\n');
  }
  close();
  return out;
}

Pods pods_of(const std::string& text, const std::string& path) {
  Pods pods;
  const ManifestDocuments documents = documents_of(text, path);
  const auto of_kind = [&](auto wanted) {
    const auto found = std::find_if(documents.all.begin(), documents.all.end(), [&](const ManifestDocument& document) {
      return is_kubernetes(document.root) && wanted(value_of(document.root, "kind")->text);
    });
    return found == documents.all.end() ? nullptr : &found->root;
  };
  if (const Node* job = of_kind([](std::string_view kind) { return kind == "TrainJob"; }); job != nullptr) {
    pods.hand_to_torchrun = true;
    add_train_job(pods, *job, of_kind([](std::string_view kind) { return kind.ends_with("TrainingRuntime"); }));
    return pods;
  }
  for (const ManifestDocument& document : documents.all) {
    add_task(pods, document.root);
    if (!is_kubernetes(document.root)) continue;
    const std::string& kind = value_of(document.root, "kind")->text;
    // github.com/kubeflow/trainer, its torch plugin; training-operator's pkg/constants/constants.go, and for DLRover
    // dlrover/python/master/scaler/pod_scaler.py.
    const bool tells = kind == "PyTorchJob" || kind == "ElasticJob";
    pods.hand_to_torchrun |= tells;
    if (const Node* spec = value_of(document.root, "spec"); spec != nullptr && tells && pods.ranks == 0)
      pods.ranks = counted(pods, *spec, "nprocPerNode", kProcesses).number;
    add_pods(pods, document.root, {});
  }
  return pods;
}

}  // namespace plan
