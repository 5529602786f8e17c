// A reader of Python's pickles that can make nothing but plain data. A pickle is a program for a stack machine, and
// Python's own reader runs whatever it names; here the opcodes that could name something do not exist.
// Source: CPython, Lib/pickletools.py, protocols 2 to 5. Tested by tests/logs/snapshot_test.cpp.
#include "cli/logs/pickle.hpp"

#include <bit>
#include <cstring>
#include <map>
#include <optional>

namespace plan {
namespace {

constexpr std::size_t kMostValues = 100'000'000;

enum class Opcode : unsigned char {
  Proto = 0x80,
  Frame = 0x95,
  Stop = '.',
  Mark = '(',
  Memoize = 0x94,
  BinPut = 'q',
  LongBinPut = 'r',
  BinGet = 'h',
  LongBinGet = 'j',
  None = 'N',
  True = 0x88,
  False = 0x89,
  BinInt = 'J',
  BinInt1 = 'K',
  BinInt2 = 'M',
  Long1 = 0x8a,
  BinFloat = 'G',
  ShortText = 0x8c,
  Text = 'X',
  Text8 = 0x8d,
  ShortBytes = 'C',
  Bytes = 'B',
  EmptyList = ']',
  EmptyDict = '}',
  EmptyTuple = ')',
  Append = 'a',
  Appends = 'e',
  SetItem = 's',
  SetItems = 'u',
  Tuple = 't',
  Tuple1 = 0x85,
  Tuple2 = 0x86,
  Tuple3 = 0x87,
  Pop = '0',
  PopMark = '1',
};

/// The stack machine. Every step says whether it could be taken.
class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  /// Nothing and `why` if the pickle is none, ends early, or wants more than plain data.
  std::optional<PickleDocument> run() {
    while (at_ < bytes_.size()) {
      const auto opcode = static_cast<Opcode>(bytes_[at_++]);
      if (opcode == Opcode::Stop) {
        if (stack_.size() == 1 && marks_.empty()) {
          document_.root = stack_.back();
          return std::move(document_);
        }
        why = "it ends with values left over";
        return std::nullopt;
      }
      if (!step(opcode)) {
        if (why.empty()) why = "it is cut or damaged";
        return std::nullopt;
      }
      if (++steps_ > kMostValues) return why = "it holds too many values", std::nullopt;
    }
    why = "it ends early";
    return std::nullopt;
  }
  std::string why{};
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  bool step(Opcode opcode) {
    switch (opcode) {
      case Opcode::Stop: break;  // run() ends there
      case Opcode::Proto: return skip(1);
      case Opcode::Frame: return skip(8);
      case Opcode::Mark: return marks_.push_back(stack_.size()), true;
      case Opcode::Memoize: return remember(memo_.size());
      case Opcode::BinPut: return with(1, [&](std::uint64_t n) { return remember(n); });
      case Opcode::LongBinPut: return with(4, [&](std::uint64_t n) { return remember(n); });
      case Opcode::BinGet: return with(1, [&](std::uint64_t n) { return recall(n); });
      case Opcode::LongBinGet: return with(4, [&](std::uint64_t n) { return recall(n); });
      case Opcode::None: return push({});
      case Opcode::True: return push({true});
      case Opcode::False: return push({false});
      case Opcode::BinInt:
        return with(4, [&](std::uint64_t n) { return push({std::int64_t{static_cast<std::int32_t>(n)}}); });
      case Opcode::BinInt1: return with(1, [&](std::uint64_t n) { return push({static_cast<std::int64_t>(n)}); });
      case Opcode::BinInt2: return with(2, [&](std::uint64_t n) { return push({static_cast<std::int64_t>(n)}); });
      case Opcode::Long1: return with(1, [&](std::uint64_t n) { return push_long(n); });
      case Opcode::BinFloat: return push_float();
      case Opcode::ShortText:
      case Opcode::ShortBytes: return with(1, [&](std::uint64_t n) { return push_text(n); });
      case Opcode::Text:
      case Opcode::Bytes: return with(4, [&](std::uint64_t n) { return push_text(n); });
      case Opcode::Text8: return with(8, [&](std::uint64_t n) { return push_text(n); });
      case Opcode::EmptyList:
      case Opcode::EmptyTuple: return push({&document_.lists.emplace_back()});
      case Opcode::EmptyDict: return push({&document_.dicts.emplace_back()});
      case Opcode::Append: return collect(stack_.empty() ? 0 : stack_.size() - 1);
      case Opcode::Appends: return to_mark([&](std::size_t from) { return collect(from); });
      case Opcode::SetItem: return stack_.size() >= 2 && enter(stack_.size() - 2);
      case Opcode::SetItems: return to_mark([&](std::size_t from) { return enter(from); });
      case Opcode::Tuple: return to_mark([&](std::size_t from) { return tuple(from); });
      case Opcode::Tuple1: return stack_.size() >= 1 && tuple(stack_.size() - 1);
      case Opcode::Tuple2: return stack_.size() >= 2 && tuple(stack_.size() - 2);
      case Opcode::Tuple3: return stack_.size() >= 3 && tuple(stack_.size() - 3);
      case Opcode::Pop: return !stack_.empty() && (stack_.pop_back(), true);
      case Opcode::PopMark: return to_mark([&](std::size_t from) { return stack_.resize(from), true; });
    }
    why = "it is more than plain data: it names a class or calls a function, which is not run here";
    return false;
  }

  bool skip(std::size_t n) {
    if (bytes_.size() - at_ < n) return false;
    at_ += n;
    return true;
  }
  /// Hands on the little-endian number of `n` bytes that follows.
  template <class Use>
  bool with(std::size_t n, const Use& use) {
    if (bytes_.size() - at_ < n) return false;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < n; ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
    at_ += n;
    return use(value);
  }
  bool push(PickleValue value) { return stack_.push_back(std::move(value)), true; }
  bool push_long(std::uint64_t n) {
    if (n > 8 || bytes_.size() - at_ < n) return false;
    std::uint64_t value =
        n > 0 && (static_cast<unsigned char>(bytes_[at_ + n - 1]) & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = n; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes_[at_ + i]);
    at_ += n;
    return push({static_cast<std::int64_t>(value)});
  }
  bool push_float() {
    if (bytes_.size() - at_ < 8) return false;
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 8; ++i) bits = bits << 8 | static_cast<unsigned char>(bytes_[at_ + i]);
    at_ += 8;
    return push({std::bit_cast<double>(bits)});
  }
  bool push_text(std::uint64_t n) {
    if (bytes_.size() - at_ < n) return false;
    const std::string& text = document_.texts.emplace_back(bytes_.substr(at_, n));
    at_ += n;
    return push({&text});
  }
  bool remember(std::uint64_t n) {
    if (stack_.empty()) return false;
    memo_[n] = stack_.back();
    return true;
  }
  bool recall(std::uint64_t n) {
    const auto found = memo_.find(n);
    return found != memo_.end() && push(found->second);
  }
  template <class Use>
  bool to_mark(const Use& use) {
    if (marks_.empty()) return false;
    const std::size_t from = marks_.back();
    marks_.pop_back();
    return from <= stack_.size() && use(from);
  }
  /// Moves the values from `from` on into the list below them.
  bool collect(std::size_t from) {
    if (from == 0 || from > stack_.size()) return false;
    auto* list = std::get_if<PickleValue::List*>(&stack_[from - 1].held);
    if (list == nullptr) return false;
    PickleValue::List* const kept = *list;
    for (std::size_t i = from; i < stack_.size(); ++i) { kept->values.push_back(std::move(stack_[i])); }
    stack_.resize(from);
    return true;
  }
  /// Moves key and value pairs from `from` on into the dictionary below them.
  bool enter(std::size_t from) {
    if (from == 0 || from > stack_.size() || (stack_.size() - from) % 2 != 0) return false;
    auto* dict = std::get_if<PickleValue::Dict*>(&stack_[from - 1].held);
    if (dict == nullptr) return false;
    PickleValue::Dict* const kept = *dict;
    for (std::size_t i = from; i < stack_.size(); i += 2) {
      kept->items.emplace_back(std::move(stack_[i]), std::move(stack_[i + 1]));
    }
    stack_.resize(from);
    return true;
  }
  bool tuple(std::size_t from) {
    if (from > stack_.size()) return false;
    PickleValue::List& list = document_.lists.emplace_back();
    list.values.assign(stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
    stack_.resize(from);
    return push({&list});
  }
  std::string_view bytes_;
  std::size_t at_ = 0, steps_ = 0;
  PickleDocument document_{};
  std::vector<PickleValue> stack_{};
  std::vector<std::size_t> marks_{};
  std::map<std::uint64_t, PickleValue> memo_{};
};

}  // namespace

const PickleValue* PickleValue::find(std::string_view key) const {
  const auto* dict = std::get_if<Dict*>(&held);
  if (dict == nullptr) return nullptr;
  for (const auto& [name, value] : (*dict)->items)
    if (name.text() == key) return &value;
  return nullptr;
}

const std::vector<PickleValue>& PickleValue::elements() const {
  static const std::vector<PickleValue> kNone;
  const auto* list = std::get_if<List*>(&held);
  return list == nullptr ? kNone : (*list)->values;
}

double PickleValue::number() const {
  if (const auto* whole = std::get_if<std::int64_t>(&held)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&held)) return *real;
  return 0;
}

std::string_view PickleValue::text() const {
  const auto* text = std::get_if<const std::string*>(&held);
  return text == nullptr ? std::string_view() : std::string_view(**text);
}

Result<PickleDocument> read_pickle(std::string_view bytes, const std::string& file) {
  Machine machine(bytes);
  if (std::optional<PickleDocument> document = machine.run()) return std::move(*document);
  return fail({"bad_pickle",
               file + ": at byte " + std::to_string(machine.at()) + ": " + machine.why,
               {},
               {},
               {file, 0, 0, 1, {}}});
}

}  // namespace plan
