# Writes OUTPUT, a C++ file that defines the string lssar::NAME with the text of FILE.
file(READ "${FILE}" text)
file(WRITE "${OUTPUT}" "// Made at build time.\n#include <string_view>\n\n\
namespace lssar {\n\nextern const std::string_view ${NAME};\n\
const std::string_view ${NAME} =\n    R\"lssar_text(${text})lssar_text\";\n\n}  // namespace lssar\n")
