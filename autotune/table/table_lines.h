// The lines of a tuning table: a header, then one record each, with its checksum.
// Format: docs/tuning_table.md. Internal to autotune/. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "autotune/table/tuning_record.h"
#include "base/status.h"

namespace lssar {

inline constexpr int kTableVersion = 1;

// Each with its '\n'.
std::string header_line();
std::string record_line(const TuningRecord& record);

// The version that a header line (without '\n') names; 0 where it is none.
int header_version(std::string_view line);

// Parses a record's line, given without '\n'. kInvalidArgument says what is wrong with it.
Result<TuningRecord> parse_record_line(std::string_view line);

// The record alone, as it stands in its line: equal records, NaN or not, have equal texts.
std::string record_text(const TuningRecord& record);

}  // namespace lssar
