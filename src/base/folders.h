// Folders that outlive a crash of the system: a file that was synced is lost all the same if the
// entry of a folder above it never reached the disk. Block; any thread.
#pragma once

#include <filesystem>
#include <system_error>

namespace dlobd::base {

// Makes the folder and those above it that are not there, and syncs the entry of each. ENOTDIR
// where one of them is a file.
std::error_code make_folders(const std::filesystem::path& folder);

// So that what was made, renamed or removed in it stays so. No error where the file system cannot
// sync folders.
std::error_code sync_folder(const std::filesystem::path& folder);

}  // namespace dlobd::base
