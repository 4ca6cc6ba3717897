#include "autotune/table/record_time.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string_view>

namespace lssar {
namespace {

using Seconds = std::chrono::sys_seconds;

constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
constexpr char kLast[] = "9999-12-31T23:59:59Z";

std::string text_of(Seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

std::optional<Seconds> parse(std::string_view text) {
  bool fits = text.size() == kForm.size();
  for (size_t i = 0; fits && i < kForm.size(); ++i) {
    fits = kForm[i] == 'd' ? text[i] >= '0' && text[i] <= '9' : text[i] == kForm[i];
  }
  if (!fits) return std::nullopt;
  const auto number = [&](size_t at, size_t digits) {
    int value = 0;
    for (const char c : text.substr(at, digits)) value = 10 * value + (c - '0');
    return value;
  };
  const std::chrono::year_month_day date(std::chrono::year(number(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number(8, 2))));
  const int hours = number(11, 2), minutes = number(14, 2), seconds = number(17, 2);
  if (!date.ok() || hours > 23 || minutes > 59 || seconds > 59) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hours) + std::chrono::minutes(minutes) +
         std::chrono::seconds(seconds);
}

}  // namespace

std::string utc_now() {
  return text_of(std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
}

Status check_record_time(const std::string& time) {
  if (time.empty() || parse(time)) return {};
  return invalid_argument(
      fmt::format("record.time = \"{}\": allowed is UTC as 2026-11-21T13:16:13Z", time));
}

std::string second_after(const std::string& time) {
  return is_last_time(time) ? time : text_of(*parse(time) + std::chrono::seconds(1));
}

bool is_last_time(const std::string& time) { return time == kLast; }

}  // namespace lssar
