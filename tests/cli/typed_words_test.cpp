// How text meets a terminal, and what is typed on it, on random words, widths and numbers: lines are as full as they
// can be, carets stand under what they mean, and the limits of a number are where they are said to be.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "cli/terminal/overlap_words.hpp"
#include "cli/terminal/state_formats.hpp"
#include "cli/terminal/terminal.hpp"

using namespace plan;

namespace {

std::vector<std::string> typed_lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string any_word(std::mt19937& random, std::size_t most) {
  std::string word(1 + random() % most, 'x');
  for (char& c : word) c = static_cast<char>('a' + random() % 26);
  return word;
}

/// Lines of pieces with a blank between them: each line begins in its column, ends inside the width if it has more than
/// one piece, and has no room for the first piece of the next.
void check_lines(const std::vector<std::string>& lines, const std::vector<std::string>& pieces, int width, int indent,
                 int first) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string line = lines[i];
    if (i > 0) {
      REQUIRE(line.size() > static_cast<std::size_t>(indent));
      CHECK(line.substr(0, static_cast<std::size_t>(indent)) == std::string(static_cast<std::size_t>(indent), ' '));
      line.erase(0, static_cast<std::size_t>(indent));
    }
    int column = i == 0 ? first : indent, count = 0;
    while (!line.empty()) {
      REQUIRE(at < pieces.size());
      REQUIRE(line.starts_with(pieces[at]));
      line.erase(0, pieces[at].size());
      column += static_cast<int>(pieces[at].size()) + (count > 0 ? 1 : 0);
      ++at, ++count;
      if (line.empty()) break;
      REQUIRE(line[0] == ' ');
      line.erase(0, 1);
    }
    CHECK((count == 1 || column <= width));
    if (i + 1 < lines.size()) CHECK(column + 1 + static_cast<int>(pieces[at].size()) > width);
  }
  CHECK(at == pieces.size());
}

}  // namespace

TEST_CASE("every line is as full as the width allows, and no word is lost") {
  std::mt19937 random(41);
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::string> words(1 + random() % 30), items(1 + random() % 12);
    for (std::string& word : words) word = any_word(random, 12);
    for (std::string& item : items) item = any_word(random, 8) + (random() % 2 == 0 ? " " + any_word(random, 8) : "");
    const int width = 12 + static_cast<int>(random() % 60), indent = static_cast<int>(random() % 8),
              first = random() % 2 == 0 ? indent : static_cast<int>(random() % 12);
    check_lines(typed_lines(wrap(fmt::format("{}", fmt::join(words, " ")), width, indent, first)), words, width, indent,
                first);
    std::vector<std::string> pieces = items;
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) pieces[i] += ",";
    check_lines(typed_lines(wrap_items(items, width, indent)), pieces, width, indent, indent);
  }
}

TEST_CASE("a caret is under its column, as long as what it means, in lines of any length") {
  std::mt19937 random(42);
  const Terminal terminal;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (unsigned long i = 1 + random() % 300; i > 0; --i)
      text += random() % 12 == 0 ? '\t' : static_cast<char>('!' + random() % 90);
    Place place{"file.yaml", 1 + static_cast<int>(random() % 2000), 1 + static_cast<int>(random() % text.size()),
                static_cast<int>(random() % 20), text};
    const std::vector<std::string> frame = typed_lines(source_frame(place, terminal));
    REQUIRE(frame.size() == 4);
    CHECK(frame[0] == fmt::format("  --> file.yaml:{}:{}", place.line, place.column));
    const std::string number = fmt::format("{:>2}", place.line);
    CHECK(frame[1] == std::string(number.size(), ' ') + " |");
    REQUIRE(frame[2].starts_with(number + " | "));
    const std::string shown = frame[2].substr(number.size() + 3), marks = frame[3].substr(number.size() + 3);
    CHECK(text.find(shown) != std::string::npos);
    CHECK((shown == text || shown.size() == 74));  // of 80 columns
    const std::size_t caret = marks.find('^');
    REQUIRE(caret < shown.size());
    CHECK(shown[caret] == text[static_cast<std::size_t>(place.column - 1)]);
    for (std::size_t i = 0; i < caret; ++i) CHECK(marks[i] == (shown[i] == '\t' ? '\t' : ' '));
    const std::size_t carets = marks.size() - caret,
                      wanted = std::max<std::size_t>(1, static_cast<std::size_t>(place.length));
    CHECK(marks.find_first_not_of('^', caret) == std::string::npos);
    CHECK(carets == std::min(wanted, shown.size() - caret));
  }
}

TEST_CASE("nothing of an error that a terminal would obey reaches it") {
  std::string all;
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  const Error error{"code", "m" + all, {"f" + all}, {"h" + all}, {"p" + all, 3, 1, 1, "t" + all}};
  const std::string out = diagnostic(error, Terminal{});
  for (const char c : out) CHECK((c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7f)));
  CHECK(std::count(out.begin(), out.end(), '\t') >= 4);
}

TEST_CASE("rows of changes stand together, squeezed where they are too wide") {
  Error error{"does_not_fit", "too big", {}, {"leave it"}};
  error.changes = {{"--gpus 8", std::string(47, 'x'), "1"}, {"--gpus 16", "x", "2 of many GiB"}};
  const std::vector<std::string> lines = typed_lines(diagnostic(error, Terminal{}));
  CHECK(lines[1] == "help: smallest changes that fit, one at a time");
  CHECK(lines[2] == "        --gpus 8             " + std::string(47, 'x') + "  1");
  CHECK(lines[3] ==
        "        --gpus 16            x" + std::string(37, ' ') + "2 of many GiB");  // as wide as the screen
  CHECK(lines[4] == "        leave it");
  Streams streams;
  const Place place{"a.yaml", 1, 1, 1, "x"}, other{"b.yaml", 1, 1, 1, "x"};
  CHECK(report_errors({{"x", "one", {}, {}, place}, {"x", "two", {}, {}, place}}, streams, "checked") == kError);
  CHECK(streams.err.ends_with("\n2 errors in a.yaml; nothing was checked\n"));
  streams.err.clear();
  report_errors({{"x", "one", {}, {}, place}, {"x", "two", {}, {}, other}}, streams, "checked");
  CHECK(streams.err.ends_with("\n2 errors; nothing was checked\n"));
}

TEST_CASE("widths of terminals are taken between 72 and 100 columns") {
  for (int columns = -2; columns < 200; ++columns)
    CHECK(make_terminal(true, columns, ColorMode::Auto, false, {}).width ==
          (columns <= 0 ? 80 : std::min(std::max(columns, 72), 100)));
}

TEST_CASE("a count is taken from its least to its most, in plain digits and with its letter") {
  std::mt19937 random(43);
  for (int round = 0; round < 500; ++round) {
    const std::int64_t least = 1 + static_cast<std::int64_t>(random() % 3000),
                       most = least + static_cast<std::int64_t>(random() % 100000);
    const auto read = [&](std::int64_t value) { return read_count("--x", fmt::format("{}", value), least, most); };
    for (const std::int64_t value : {least, most, (least + most) / 2}) CHECK(read(value).value() == value);
    CHECK(read(least - 1).error()[0].message == fmt::format("`--x` must be at least {}, got `{}`", least, least - 1));
    CHECK(read(most + 1).error()[0].message == fmt::format("`--x` must be at most {}, got `{}`", most, most + 1));
  }
  for (int i = 1; i < 64; ++i)
    for (const char* letter : {"k", "K", "ki", "Ki"}) {
      const auto read = read_count("--x", fmt::format("{}{}", i, letter), 1, 1 << 30);
      CHECK(read.has_value() == (i != 33 || letter[1] == 'i'));  // 33k is what people call 32768
      if (read) CHECK(*read == i * 1024);
      CHECK(read_count("--x", fmt::format("{}.5{}", i, letter), 1, 1 << 30).value() == i * 1024 + 512);
    }
  for (const char* letter : {"m", "M", "mi", "Mi"})
    CHECK(read_count("--x", fmt::format("3{}", letter), 1, 1 << 30).value() == 3 << 20);
  CHECK_FALSE(read_count("--x", "1.0001k", 1, 1 << 30).has_value());
}

TEST_CASE("an amount is its number times what its letter says, and not beyond its most") {
  for (const auto& [letter, size] :
       {std::pair{"", 1.0}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}})
    for (const double number : {0.25, 1.0, 7.5}) {
      const std::string text = fmt::format("{}{}", number, letter);
      CHECK(read_amount("--tokens", text).value() == doctest::Approx(number * size));
      CHECK(read_amount("--tokens", text, number * size).has_value());
      CHECK_FALSE(read_amount("--tokens", text, 0.999 * number * size).has_value());
    }
  for (const char* bad : {"0", "-1", "1X", "", "k"}) CHECK_FALSE(read_amount("--tokens", bad).has_value());
}

TEST_CASE("a batch of tokens is as many sequences as they are, or refused with the two around it") {
  std::mt19937 random(44);
  for (int round = 0; round < 500; ++round) {
    const std::int64_t seq = 1 + static_cast<std::int64_t>(random() % 9000),
                       sequences = 1 + static_cast<std::int64_t>(random() % 4000);
    CHECK(read_global_batch(fmt::format("{} tokens", seq * sequences), seq).value() == sequences);
    CHECK(read_global_batch(fmt::format("{} sequences", sequences), seq).value() == sequences);
    if (seq == 1) continue;
    const std::int64_t tokens = seq * sequences + 1 + static_cast<std::int64_t>(random()) % (seq - 1);
    const Result<std::int64_t> read = read_global_batch(fmt::format("{} tokens", tokens), seq);
    REQUIRE_FALSE(read.has_value());
    double below = 0, above = 0;
    for (const std::string& help : read.error()[0].help) {
      const double count = std::stod(help.substr(help.find("batch ") + 6));
      (count * static_cast<double>(seq) < static_cast<double>(tokens) ? below : above) = count;
    }
    const double unit = tokens >= 640 * seq ? 64 : 1;
    CHECK(above - below == unit);
    CHECK(std::fmod(above, unit) == 0);
  }
  CHECK(read_global_batch("100000000", 8).value() == 100'000'000);
  CHECK_FALSE(read_global_batch("100000001", 8).has_value());
  CHECK(read_global_batch("100000000 tokens", 1).value() == 100'000'000);
  CHECK_FALSE(read_global_batch("100000001 tokens", 1).has_value());
}

TEST_CASE("headroom is an amount or a share of less than all") {
  CHECK(read_headroom("0").value().bytes.value_or(read_headroom("0").value().share.value_or(1)) == 0);
  CHECK(read_headroom("99.9%").value().share.value() == doctest::Approx(0.999));
  CHECK(read_headroom("0%").value().share.value() == 0);
  CHECK(read_headroom("4GiB").value().bytes.value() == doctest::Approx(4.0 * (1 << 30)));
  for (const char* bad : {"100%", "101%", "-1%", "-1GiB", "x", ""}) CHECK_FALSE(read_headroom(bad).has_value());
}

TEST_CASE("every choice of formats for the states is applied as it is named, and told again") {
  const std::pair<std::string, double> grads[] = {{"", 4}, {"fp32", 4}, {"bf16", 2}},
                                       masters[] = {{"", 4}, {"fp32", 4}, {"fp16", 2}},
                                       moments[] = {{"", 4}, {"fp32", 4}, {"bf16", 2}, {"fp8", 1}};
  for (const auto& grad : grads)
    for (const auto& master : masters)
      for (const auto& first : moments)
        for (const auto& second : moments)
          for (const std::string kept : {"", "bf16", "fp8"}) {
            std::vector<std::string> parts;
            const auto add = [&](const char* name, const std::string& word) {
              if (!word.empty()) parts.push_back(std::string(name) + "=" + word);
            };
            add("grads", grad.first), add("master", master.first);
            add("moment1", first.first), add("moment2", second.first), add("kept", kept);
            if (parts.empty()) continue;
            const std::string text = fmt::format("{}", fmt::join(parts, ","));
            CAPTURE(text);
            const Result<StateFormats> read = read_state_formats(text);
            REQUIRE(read.has_value());
            Training training;
            read->apply(training);
            CHECK(training.grad_bytes == grad.second);
            CHECK(training.master_bytes == master.second);
            CHECK(training.moment1_bytes == first.second);
            CHECK(training.moment2_bytes == second.second);
            CHECK(training.stack.fp8_activation_input == (kept == "fp8"));
            CHECK(training.precision_aware == (master.second < 4 || first.second < 4 || second.second < 4));
            const std::string told = state_formats_text(training);
            if (told.empty()) continue;
            Training again;
            read_state_formats(told)->apply(again);
            CHECK(again == training);
          }
}

TEST_CASE("shares and layers that are offloaded have their limits, and every choice is told again") {
  for (const char* bad : {"optimizer=0", "optimizer=-0.5", "optimizer=1.01", "optimizer=x", "layers=0", "layers=100001",
                          "layers=1.5", "layers"})
    CHECK_FALSE(read_offload(bad).has_value());
  for (const char* good : {"optimizer=1", "optimizer=0.001", "layers=1", "layers=100000"})
    CHECK(read_offload(good).has_value());
  for (const double share : {0.0, 0.25, 1.0})
    for (const bool parameters : {false, true})
      for (const int layers : {0, 1, 7}) {
        Offload offload;
        offload.optimizer = share, offload.parameters = parameters, offload.layers = layers;
        if (offload_text(offload).empty()) continue;
        CHECK(read_offload(offload_text(offload)).value() == offload);
      }
}
