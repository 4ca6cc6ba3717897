// lssar cache verify, prune, export, import.
#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdlib>

#include "cache/house_keeping.h"
#include "tools/lssar/commands/cache_places.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/message_stream.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

constexpr double kNsPerDay = 86400e9;

// "500M", "1.5G", "4096": powers of 1024.
Result<uint64_t> parse_size(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit(end);
  const size_t power = unit.empty() ? 0 : std::string(" KMGT").find(unit[0]);
  const bool is_unit =
      unit.empty() || (unit.size() == 1 && power != std::string::npos && power > 0);
  const double bytes = is_unit ? std::ldexp(number, 10 * static_cast<int>(power)) : -1;
  if (end == text.c_str() || !(bytes >= 0 && bytes < 0x1p63)) {
    return invalid_argument(fmt::format(
        "--max-size {}: allowed are a number of bytes, or one with K, M, G or T", text));
  }
  return static_cast<uint64_t>(bytes);
}

EntryFilter filter_of(const CacheCommandOptions& options) {
  if (options.target.empty()) return {};
  return [target = options.target](const CacheEntry& e) { return title_of(e).target == target; };
}

// Bad entries were left out: the rest is done, and the exit code says so.
int report_copy(const CopyReport& report, const std::string& what,
                const CacheCommandOptions& options) {
  for (const std::string& problem : report.problems) print_problem(problem);
  if (options.json) {
    print_json({{"copied", report.copied},
                {"copied_bytes", report.copied_bytes},
                {"present", report.present},
                {"of_other_targets", report.unwanted},
                {"problems", report.problems}});
  } else {
    std::string text =
        fmt::format("{}: {} entries, {}", what, report.copied, size_text(report.copied_bytes));
    if (report.present != 0) text += fmt::format(", {} were there", report.present);
    if (report.unwanted != 0) text += fmt::format(", {} of other targets", report.unwanted);
    if (!report.problems.empty()) text += fmt::format(", {} not good", report.problems.size());
    print_text(message_stream(what), "{}\n", text);
  }
  return report.problems.empty() ? kDone : kBadInput;
}

}  // namespace

Result<int> verify_cache(const CacheCommandOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<EntrySource> place, open_place(options));
  const bool may_remove = options.remove && place->kind() == std::string("directory");
  if (options.remove && !may_remove) {
    return invalid_argument("--remove: a pack is never changed; make a new one with export");
  }
  uint64_t good = 0, bad = 0, removed = 0;
  nlohmann::json problems = nlohmann::json::array();
  LSSAR_RETURN_IF_ERROR(
      visit_entries(*place, [&](const CheckedEntry& checked, std::string_view) -> Status {
        if (checked.problem.empty()) return ++good, Status();
        ++bad;
        const std::string key = to_hex(checked.stored.key);
        const bool is_gone =
            may_remove && checked.damaged &&
            posix_file_system().remove(place->path() + "/entries/" + key, checked.state).ok();
        removed += is_gone;
        print_problem(fmt::format("{}: {}{}", key, checked.problem, is_gone ? " (removed)" : ""));
        problems.push_back({{"key", key}, {"problem", checked.problem}, {"removed", is_gone}});
        return {};
      }));
  if (options.json) {
    print_json({{"place", place->path()}, {"good", good}, {"problems", problems}});
  } else {
    print_text("{}: {} good, {} not good, {} removed\n", place->path(), good, bad, removed);
  }
  return bad == removed ? kDone : kBadInput;
}

Result<int> prune_cache(const CacheCommandOptions& options) {
  EvictionLimits limits;
  limits.young_ns = options.all ? std::numeric_limits<int64_t>::min() : kYoungEntryNs;
  LSSAR_ASSIGN_OR_RETURN(limits.max_bytes, parse_size(options.all ? "0" : options.max_size));
  limits.kept_bytes = limits.max_bytes;
  const double old_ns = options.older_than_days * kNsPerDay;
  if (old_ns < 0x1p63) limits.old_ns = static_cast<int64_t>(old_ns);

  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DiskLayer> layer, open_directory(options));
  const std::string& directory = layer->directory();
  const uint64_t swept = sweep_temporaries(posix_file_system(), directory + "/tmp");
  const Eviction done = evict_entries(posix_file_system(), directory + "/entries", limits);
  if (options.json) {
    print_json({{"removed", done.evicted},
                {"removed_bytes", done.evicted_bytes},
                {"kept", done.kept},
                {"kept_bytes", done.kept_bytes},
                {"temporaries", swept}});
  } else {
    print_text("{}: {} entries and {} temporaries removed ({}), {} entries kept ({})\n", directory,
               done.evicted, swept, size_text(done.evicted_bytes), done.kept,
               size_text(done.kept_bytes));
  }
  return static_cast<int>(kDone);
}

Result<int> export_cache(const CacheCommandOptions& options) {
  if (options.json && is_standard_output(options.pack))
    return invalid_argument("--json: the pack goes to standard output, so JSON cannot");
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<EntrySource> place, open_place(options));
  LSSAR_ASSIGN_OR_RETURN(const CopyReport report,
                         export_pack(*place, options.pack, filter_of(options)));
  return report_copy(report, options.pack, options);
}

Result<int> import_cache(const CacheCommandOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<EntrySource> source,
                         EntrySource::open(posix_file_system(), options.pack));
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DiskLayer> layer, open_directory(options));
  LSSAR_ASSIGN_OR_RETURN(const CopyReport report,
                         import_entries(*source, posix_file_system(), *layer, filter_of(options)));
  return report_copy(report, layer->directory(), options);
}

}  // namespace lssar::command
