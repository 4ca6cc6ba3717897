// Where the libraries are that lssar opens by name and that are installed with it.
#pragma once

#include <string>
#include <vector>

namespace lssar {

// Paths for a library of that file name, best first: beside the library or executable that has this
// code, in ../lib of it, and in the installation's folder. None of them need exist.
std::vector<std::string> candidates_beside_code(const std::string& file_name);

}  // namespace lssar
