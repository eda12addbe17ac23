// The program: runs the command, reports errors, and returns the exit status.

#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "command.hpp"
#include "errors.hpp"

int main(int argc, char** argv) {
  using pyflowers::ExitCode;
  try {
    const std::vector<std::string> tokens(argv + 1, argv + argc);
    return static_cast<int>(pyflowers::run_command(argv[0], tokens));
  } catch (const pyflowers::DriverError& error) {
    std::cerr << error.what() << std::endl;
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return static_cast<int>(ExitCode::software);
  }
}
