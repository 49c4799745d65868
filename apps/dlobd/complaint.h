// How every verb says what went wrong: one line on stderr, whatever bytes the words hold that it
// quotes. And how the program learns that its output went nowhere.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace dlobd::app {

// Control characters as \n, \t, \x1b; the rest as it is.
std::string one_line(std::string_view text);

// "<who>: <what>" as one line. A reader that has gone changes nothing.
void complain(std::string_view who, std::string_view what);

// Writes at once. Who reads along may leave (`| head`): the run and its record do not depend on it.
// The first other failure of stdout is complained of.
void show(std::FILE* where, std::string_view text);

// Whether all that was written to stdout has got there; a reader that has left wanted no more. Call
// last.
bool output_arrived();

}  // namespace dlobd::app
