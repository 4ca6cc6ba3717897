// lssar cache: lists and checks the binary cache, and moves kernels between machines.
#include <fmt/format.h>

#include <algorithm>

#include "cache/location.h"
#include "cache/node_locks.h"
#include "cache/sha256.h"
#include "tools/lssar/commands/cache_places.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/number_option.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

Result<int> list_cache(const CacheCommandOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<EntrySource> place, open_place(options));
  std::vector<CheckedEntry> entries;
  uint64_t bytes = 0;
  LSSAR_RETURN_IF_ERROR(visit_entries(*place, [&](const CheckedEntry& checked, std::string_view) {
    bytes += checked.stored.bytes;
    entries.push_back(checked);
    if (!options.json) entries.back().entry.payload.clear();  // a row needs its metadata only
    return Status();
  }));
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.stored.used_ns > b.stored.used_ns;
  });
  if (options.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const CheckedEntry& checked : entries) rows.push_back(to_json(checked));
    print_json(rows);
    return static_cast<int>(kDone);
  }
  for (const CheckedEntry& checked : entries) {
    const EntryTitle title = title_of(checked.entry);
    print_text("{}  {:>9}  {}  {}\n", to_hex(checked.stored.key).substr(0, kShownHashDigits),
               size_text(checked.stored.bytes), time_text(checked.stored.used_ns),
               printable_field(checked.problem.empty()
                                   ? fmt::format("{}  {} {}  {}", title.kernel, title.target,
                                                 title.image, title.compiler)
                                   : "NOT GOOD: " + checked.problem));
  }
  print_text("{}: {} entries, {}\n", place->path(), entries.size(), size_text(bytes));
  return static_cast<int>(kDone);
}

struct Count {
  uint64_t entries = 0, bytes = 0;
};

Result<Count> count_entries(EntrySource& source) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<StoredEntry> entries, source.list());
  Count count;
  for (const StoredEntry& entry : entries) ++count.entries, count.bytes += entry.bytes;
  return count;
}

// A place that kernels are looked up in, as one row. A problem with it is no failure of the
// command.
nlohmann::json state_of(const std::string& path) {
  nlohmann::json row = {{"path", path}, {"kind", ""}, {"problem", ""}};
  const auto source = EntrySource::open(posix_file_system(), path);
  const Result<Count> count =
      source.ok() ? count_entries(**source) : Result<Count>(source.status());
  if (!count.ok()) return row["problem"] = count.status().message(), row;
  row["kind"] = (*source)->kind();
  row["entries"] = count->entries;
  row["bytes"] = count->bytes;
  return row;
}

nlohmann::json directory_state(const CacheCommandOptions& options) {
  const auto layer = open_directory(options);
  if (layer.ok()) return state_of((*layer)->directory());
  return {{"path", ""}, {"kind", ""}, {"problem", layer.status().message()}};
}

void print_state(const std::string& what, const nlohmann::json& row) {
  const auto path = row.at("path").get<std::string>();
  const auto problem = row.at("problem").get<std::string>();
  if (!problem.empty()) {
    print_text("  {:<9} {}not used: {}\n", what, path.empty() ? "" : path + ", ", problem);
    return;
  }
  print_text("  {:<9} {}, {}, {} entries, {}\n", what, path, row.at("kind").get<std::string>(),
             row.at("entries").get<uint64_t>(), size_text(row.at("bytes").get<uint64_t>()));
}

Result<int> show_state(const CacheCommandOptions& options) {
  nlohmann::json state;
  if (!options.path.empty()) {
    state = state_of(options.path);
    const auto problem = state.at("problem").get<std::string>();
    if (!problem.empty()) return io_error(problem);
    if (options.json) return print_json(state), static_cast<int>(kDone);
    print_state("place", state);
    return static_cast<int>(kDone);
  }
  state["layers"] = nlohmann::json::array();
  for (const std::string& layer : find_cache_layers({})) state["layers"].push_back(state_of(layer));
  state["directory"] = directory_state(options);
  const Result<std::string> locks = NodeLocks(posix_file_system(), "").folder();
  state["locks"] = {{"path", locks.ok() ? *locks : ""},
                    {"problem", locks.ok() ? "" : locks.status().message()}};
  if (options.json) return print_json(state), static_cast<int>(kDone);
  print_text("Asked in this order\n");
  for (const nlohmann::json& layer : state["layers"]) print_state("layer", layer);
  print_state("directory", state["directory"]);
  print_text("One compute per machine\n  {:<9} {}\n", "locks",
             locks.ok() ? *locks : "none: " + locks.status().message());
  return static_cast<int>(kDone);
}

using Work = Result<int> (*)(const CacheCommandOptions&);

CLI::App* add_one(CLI::App* sub, const char* name, const char* what,
                  const std::shared_ptr<CacheCommandOptions>& options, Action* action, Work work) {
  CLI::App* one = sub->add_subcommand(name, what);
  one->footer("\n" + exit_code_help());  // else the command's, which has its example
  one->callback([options, action, work] { *action = [options, work] { return work(*options); }; });
  one->add_flag("--json", options->json, "one JSON value instead of text");
  return one;
}

void add_places(CLI::App* one, const std::shared_ptr<CacheCommandOptions>& options) {
  one->add_option("PATH", options->path, "a cache directory or a pack (default: the directory)")
      ->type_name("PATH");
}

void add_copies(CLI::App* one, const std::shared_ptr<CacheCommandOptions>& options,
                const char* what) {
  one->add_option("PACK", options->pack, what)->required()->type_name("PACK");
  one->add_option("--target", options->target, "only kernels of this architecture, e.g. sm_90a")
      ->type_name("ARCH");
}

}  // namespace

void add_cache(CLI::App& app, Action* action) {
  auto options = std::make_shared<CacheCommandOptions>();
  CLI::App* sub = app.add_subcommand("cache", "List, check, clean, export and import kernels");
  sub->require_subcommand(0, 1);  // reports none here; an unknown one is reported by its name
  sub->callback([action] {
    if (*action) return;
    *action = []() -> Result<int> {
      return invalid_argument(
          "cache: no subcommand: allowed are ls, stat, verify, prune, export and import");
    };
  });
  sub->fallthrough();
  sub->add_option("--dir", options->directory,
                  "the cache directory (default: LSSAR_CACHE_DIR, else $XDG_CACHE_HOME/lssar, else "
                  "~/.cache/lssar)")
      ->type_name("DIR");

  add_places(add_one(sub, "ls", "The kernels, a line each, the last used first", options, action,
                     list_cache),
             options);
  add_places(add_one(sub, "stat", "Which places are asked for kernels, and what they hold", options,
                     action, show_state),
             options);
  CLI::App* verify = add_one(sub, "verify", "Check every entry; exits 2 where one is not good",
                             options, action, verify_cache);
  add_places(verify, options);
  verify->add_flag("--remove", options->remove, "unlink what is damaged");

  CLI::App* prune =
      add_one(sub, "prune", "Remove what was not used for long, and crashed writers' files",
              options, action, prune_cache);
  prune
      ->add_option("--max-size", options->max_size,
                   "the least recently used go until this is left: bytes, or with K, M, G, T "
                   "(default 1G)")
      ->type_name("SIZE");
  add_parsed(*prune, "--older-than", "so do all not used for DAYS",
             [options](const std::string& text) -> Status {
               const Status status = parse_number(text, &options->older_than_days);
               if (status.ok() && options->older_than_days >= 0) return {};
               return invalid_argument("allowed are 0 and more days");
             })
      ->type_name("DAYS");
  prune->add_flag("--all", options->all, "everything, what was used a moment ago too");

  CLI::App* to_pack = add_one(sub, "export", "Write the good kernels into one file, a pack",
                              options, action, export_cache);
  add_copies(to_pack, options, "the file that is made");
  add_copies(add_one(sub, "import", "Add the kernels of a pack or directory that are not there yet",
                     options, action, import_cache),
             options, "a pack or a cache directory");

  sub->footer(
      "\nExample: compile once, ship one file to all machines of a cluster\n"
      "  lssar cache export kernels.pack\n"
      "  export LSSAR_CACHE_LAYERS=/shared/kernels.pack\n\n" +
      exit_code_help());
}

}  // namespace lssar::command
