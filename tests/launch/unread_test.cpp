// What nothing reads and may weigh is told once, with its place, and in the same words whichever tool's file it is in.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/launch/unread.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

TEST_CASE("names that nothing reads are one note, with the place of the first") {
  std::vector<Note> notes;
  Unread unread;
  unread.tell(notes);
  CHECK(notes.empty());
  unread.add("a.b", "x.yaml:3");
  unread.add("c", "x.yaml:1");
  unread.tell(notes);
  unread.tell(notes, "these flags", "unknown_flag");
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].code == "not_used");
  CHECK(notes[0].text.starts_with("x.yaml:3: what these keys change is not known: `a.b`, `c`"));
  CHECK(notes[1].code == "unknown_flag");
  CHECK(notes[1].text.starts_with("x.yaml:3: what these flags change is not known: "));
}

TEST_CASE("a key that may weigh is told with its line and in backticks by every reader") {
  const std::pair<std::string, std::string> files[] = {
      {"o.yaml",
       "model:\n  num_layers: 4\n  hidden_size: 512\n  num_attention_heads: 8\n  seq_length: 2048\n"
       "  vocab_size: 32000\n  tensor_model_parallel_size: 2\n  moe_offload_experts: true\ndataset:\n"
       "  seq_length: 2048\ntrain:\n  micro_batch_size: 1\n  global_batch_size: 8\n"},
      {"swift.sh",
       "megatron sft --model Qwen/Qwen3-8B --tensor_model_parallel_size 2 --micro_batch_size 1 "
       "--global_batch_size 16 --max_length 4096 --moe_offload_experts true\n"},
  };
  for (const auto& file : files) {
    CAPTURE(file.first);
    const LaunchJob job = job_of(file.first, file.second, on(8));
    bool told = false;
    for (const Note& note : job.unused) {
      const std::size_t known = note.text.find(" change is not known: `"), place = note.text.find(file.first + ":");
      if (known == std::string::npos) continue;
      told = true;
      REQUIRE(place < known);
      CHECK(note.text.find_first_of("123456789", place) == place + file.first.size() + 1);
      CHECK(note.text.back() == '`');
    }
    CHECK(told);
  }
}

}  // namespace plan
