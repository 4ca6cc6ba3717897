#include "cache/maintenance.h"

#include <fmt/format.h>

#include <set>

#include "cache/pack.h"

namespace lssar {
namespace {

// Whether `checked` is to be copied. If not, the report says why.
bool is_copied(const CheckedEntry& checked, const EntryFilter& wanted, CopyReport* report) {
  if (!checked.problem.empty()) {
    report->problems.push_back(fmt::format("{}: {}", to_hex(checked.stored.key), checked.problem));
    return false;
  }
  if (!wanted || wanted(checked.entry)) return true;
  ++report->unwanted;
  return false;
}

void count_copy(std::string_view bytes, CopyReport* report) {
  ++report->copied;
  report->copied_bytes += bytes.size();
}

}  // namespace

Status visit_entries(
    EntrySource& source,
    const std::function<Status(const CheckedEntry& checked, std::string_view bytes)>& visit) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<StoredEntry> entries, source.list());
  for (const StoredEntry& stored : entries) {
    CheckedEntry checked;
    checked.stored = stored;
    const Result<std::string> bytes = source.bytes(stored.key, &checked.state);
    if (!bytes.ok()) {
      checked.problem = bytes.status().message();
      LSSAR_RETURN_IF_ERROR(visit(checked, ""));
      continue;
    }
    DecodeFailure failure;
    if (!decode_entry(*bytes, stored.key, &checked.entry, &failure)) {
      checked.problem = failure.reason;
      checked.damaged = failure.damaged;
    }
    LSSAR_RETURN_IF_ERROR(visit(checked, *bytes));
  }
  return {};
}

Result<CopyReport> export_pack(EntrySource& source, const std::string& path,
                               const EntryFilter& wanted) {
  CopyReport report;
  LSSAR_ASSIGN_OR_RETURN(PackWriter writer, PackWriter::create(path));
  LSSAR_RETURN_IF_ERROR(
      visit_entries(source, [&](const CheckedEntry& checked, std::string_view bytes) -> Status {
        if (!is_copied(checked, wanted, &report)) return {};
        count_copy(bytes, &report);
        return writer.add(checked.stored.key, bytes);
      }));
  LSSAR_RETURN_IF_ERROR(writer.finish());
  return report;
}

Result<CopyReport> import_entries(EntrySource& source, FileSystem& fs, DiskLayer& directory,
                                  const EntryFilter& wanted) {
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<EntrySource> target,
                         EntrySource::open(fs, directory.directory()));
  LSSAR_ASSIGN_OR_RETURN(const std::vector<StoredEntry> there, target->list());
  std::set<Sha256Digest> keys;
  for (const StoredEntry& entry : there) keys.insert(entry.key);

  CopyReport report;
  LSSAR_RETURN_IF_ERROR(
      visit_entries(source, [&](const CheckedEntry& checked, std::string_view bytes) -> Status {
        if (!is_copied(checked, wanted, &report)) return {};
        if (keys.count(checked.stored.key) != 0) return ++report.present, Status();
        count_copy(bytes, &report);
        return directory.write_encoded(checked.stored.key, bytes);
      }));
  return report;
}

}  // namespace lssar
