// The files of the report's page, embedded at build time. Threads: constants.
#pragma once

#include <string_view>
#include <vector>

namespace lssar {

struct PageFile {
  std::string_view path;  // "inspect/page/report.css"
  std::string_view text;
};
const std::vector<PageFile>& page_files();  // sorted by path

}  // namespace lssar
