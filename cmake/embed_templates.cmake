# Writes OUTPUT, a C++ file that defines lssar::template_files() from FILES (paths below ROOT,
# separated by commas).
string(REPLACE "," ";" FILES "${FILES}")
list(SORT FILES)
set(code "// Made at build time from the device templates.\n#include \"codegen/templates.h\"\n\n")
string(APPEND code "namespace lssar {\n\nconst std::vector<TemplateFile>& template_files() {\n")
string(APPEND code "  static const std::vector<TemplateFile> files = {\n")
foreach(file IN LISTS FILES)
  file(READ "${ROOT}/${file}" text)
  string(APPEND code "      {\"${file}\",\n       R\"lssar_cuh(${text})lssar_cuh\"},\n")
endforeach()
string(APPEND code "  };\n  return files;\n}\n\n}  // namespace lssar\n")
file(WRITE "${OUTPUT}" "${code}")
