// The times of tuning records: texts such as "2026-11-21T13:16:13Z". They are always UTC, so that
// times compare as texts do. Internal to autotune/. Threads: pure functions.
#pragma once

#include <string>

#include "base/status.h"

namespace lssar {

std::string utc_now();

// "" (not known), or a day and a time of day that exist.
Status check_record_time(const std::string& time);

// One second later; "9999-12-31T23:59:59Z" stays. REQUIRES: check_record_time(time).ok(); not "".
std::string second_after(const std::string& time);

// Whether it is "9999-12-31T23:59:59Z". If several records have this time, the last line counts.
bool is_last_time(const std::string& time);

}  // namespace lssar
