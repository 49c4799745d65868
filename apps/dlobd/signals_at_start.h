// Signals between the kernel's start of this program and its main(). Libraries that libfabric
// brings along (libpsm2, libpsm_infinipath) install handlers of their own as they are loaded: an
// interrupt would end the program with status 1 and no word, a crash would leave a file in the
// working folder and look like an ordinary exit. Here signals that would meet such a handler are
// held back before any library has run, and main() puts everything as it was. Linked into the
// program itself, never into a shared library.
#pragma once

namespace dlobd::app {

// At the beginning of main(). What the parent has set to be ignored stays so (nohup); every other
// signal has its default action, and one that came meanwhile takes it now. Under a sanitizer the
// signals of a crash stay the sanitizer's.
void own_signals();

}  // namespace dlobd::app
