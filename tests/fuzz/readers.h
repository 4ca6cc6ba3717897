// What takes bytes that somebody else may have written, and what each is put through. A reader ends
// the process where an error says nothing, is a bug of ours, or where a property that its .cpp
// states does not hold; everything else is up to the sanitizers.
//
// Used by the libFuzzer programs, by the replay of their corpora and by the writer of their seeds.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lssar::test {

// Entries and packs of the binary cache (docs/cache_format.md), by how they begin; once as they are
// and once with checksums that fit.
void run_cache_input(std::string_view input);

// The text of a tuning table. A line that begins as a JSON object of its own counts as a record,
// and gets its checksum.
void run_table_input(std::string_view input);

// {"target": ..., "problem": {...}, "schedule": {...}}: read, checked, emitted.
void run_schedule_input(std::string_view input);

// The structs of lssar_plan_create and of the calls on a plan, one after the other
// (plan_input.h), then the text of a schedule.
void run_plan_input(std::string_view input);

// The file of a capture (docs/capture_format.md), as it is and with checksums that fit; or the text
// of its manifest.
void run_capture_input(std::string_view input);

struct Reader {
  const char* name;  // of its fuzzer (cache_fuzzer, ...) and of its file in corpora/ (cache.corpus)
  void (*run)(std::string_view input);
};
inline constexpr Reader kReaders[] = {{"cache", run_cache_input},
                                      {"capture", run_capture_input},
                                      {"table", run_table_input},
                                      {"schedule", run_schedule_input},
                                      {"plan", run_plan_input}};

// Inputs to begin with: names and bytes.
std::vector<std::pair<std::string, std::string>> reader_seeds(std::string_view reader);
std::vector<std::pair<std::string, std::string>> capture_seeds();  // a part of them

}  // namespace lssar::test
