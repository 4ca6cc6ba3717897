// TuningTable: records in a text file to which lines are only appended, one JSON object per line.
// Format and rules: docs/tuning_table.md.
//
// Threads and processes: any number may append to and read one file at once. An append is one write
// of whole lines under an advisory lock of the file. A kill at any byte leaves at most one torn
// last line; readers skip it, and the next append ends it. The file system never makes a request
// fail, except if the caller named the file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/table/tuning_record.h"
#include "base/status.h"

namespace lssar {

// Lines of a file that are no records: reported, never deleted.
struct TableDefects {
  int malformed_lines = 0;  // torn, changed since they were written, or not a record
  std::string first;        // what is wrong with the first one, with its line number
  // The format's version if it is later than this library's: nothing was read.
  int newer_version = 0;
};

enum class TableContent {
  kAll,
  kWinners,  // records with `chosen`: plans look only at these, a small part of a table
};

class TuningTable {
 public:
  // An empty table in memory.
  TuningTable() = default;

  // A missing file is an empty table. kIoError: it exists and cannot be read. kUnsupported: it has
  // a later version of the format.
  static Result<TuningTable> load(const std::string& path,
                                  TableContent content = TableContent::kAll);
  // From text of the same format, e.g. the shipped table. `name` is for messages.
  static TuningTable parse(std::string_view text, const std::string& name = "",
                           TableContent content = TableContent::kAll);

  // Its origin: the path, or "shipped table"; "" in memory.
  const std::string& name() const { return name_; }
  const std::vector<TuningRecord>& records() const { return records_; }
  const TableDefects& defects() const { return defects_; }

  // In memory only.
  void add(TuningRecord record) { records_.push_back(std::move(record)); }
  // Adds every record of `other` that is not here yet, in its order. Returns how many.
  int merge(const TuningTable& other);

  // One line per record, each once, sorted by bucket and machine. The same records give the same
  // bytes. For export.
  std::string canonical_text() const;

 private:
  std::string name_;
  std::vector<TuningRecord> records_;
  TableDefects defects_;
};

// Appends records to the file, creates it (0600) and its directory (0700) if they are missing, and
// flushes it to disk. kIoError: nothing was written, or (if flushing failed) whole records.
// kUnsupported: the file has a later version of the format; nothing was written.
Status append_records(const std::string& path, const std::vector<TuningRecord>& records);

// Whether append_records could write, as far as can be said before: asked before long work. Makes
// nothing. Errors: as append_records.
Status check_can_append(const std::string& path);

// Appends those records of `given` that the file does not have, and returns them. The file is read
// under the lock of the append, so that processes which add the same records at once add each one
// once. Errors: as append_records and TuningTable::load.
Result<std::vector<TuningRecord>> append_missing_records(const std::string& path,
                                                         const TuningTable& given);

// Replaces the file's content by what `edit` makes of its table, under the same lock, so that no
// append of another process is lost. Lines that are no records are dropped. `backup` (may be "")
// gets the old bytes first. Returns whether anything changed; if not, neither file is written.
// Errors: as append_records. kIoError: also if the file is missing.
Result<bool> rewrite_table(const std::string& path, const std::string& backup,
                           const std::function<TuningTable(TuningTable)>& edit);

// Writes what `make_text` returns, as write_output_file does. If `path` is already a file, its lock
// is held from before the call of `make_text`, which may read that file. So no append is lost.
Status write_table_text(const std::string& path,
                        const std::function<Result<std::string>()>& make_text);

// The user's table: LSSAR_TUNING_TABLE, else tuning.jsonl in the cache directory; "" for "none".
std::string default_table_path(const std::string& cache_directory);

// The table that comes with the library: measured schedules by architecture.
const TuningTable& shipped_table();

}  // namespace lssar
