// The lines of a tuning table: a header, then one record each, with its checksum.
// Format: docs/tuning_table.md. Internal to autotune/. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "autotune/table/tuning_record.h"
#include "base/status.h"

namespace lssar {

inline constexpr int kTableVersion = 1;

// Each ends with '\n'.
std::string header_line();
std::string record_line(const TuningRecord& record);

// The version that a header line (without '\n') names; 0 if it is no header line.
int header_version(std::string_view line);

// Parses a record's line, given without '\n'. kInvalidArgument says what is wrong with it.
Result<TuningRecord> parse_record_line(std::string_view line);

// The record's text alone, as its line has it. Equal records, with NaN or without, have equal
// texts.
std::string record_text(const TuningRecord& record);

}  // namespace lssar
