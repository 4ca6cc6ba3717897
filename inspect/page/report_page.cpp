#include "inspect/page/report_page.h"

#include <cassert>
#include <string>

#include <nlohmann/json.hpp>

#include "inspect/page/report.h"

namespace lssar {
namespace {

// JSON text inside <script>, escaped so that it can neither end the script nor begin a comment.
std::string for_script(const nlohmann::json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string for_html(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

// Joins all files whose path ends like this.
std::string joined(std::string_view ending) {
  std::string text;
  for (const PageFile& file : page_files())
    if (file.path.ends_with(ending)) text += file.text;
  return text;
}

}  // namespace

// Replaces {{NAME}} in the template. Inserted text is not searched again.
std::string report_html(const ReportPage& page) {
  const std::string html = joined(".html");
  const nlohmann::json data = {{"title", page.title},
                               {"command", page.command},
                               {"note", page.note},
                               {"problems", page.problems},
                               {"models", page.models}};
  std::string out;
  size_t at = 0;
  while (true) {
    const size_t begin = html.find("{{", at);
    out.append(html, at, begin - at);
    if (begin == html.npos) return out;
    const size_t end = html.find("}}", begin);
    assert(end != html.npos && "a place of the page's template has no end");
    const std::string_view place(html.data() + begin + 2, end - begin - 2);
    if (place == "TITLE") out += for_html(page.title);
    if (place == "STYLE") out += joined(".css");
    if (place == "SCRIPT") out += joined(".js");
    if (place == "DATA") out += for_script(data);
    at = end + 2;
  }
}

}  // namespace lssar
