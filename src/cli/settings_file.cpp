// SPDX-License-Identifier: Apache-2.0
//
// Where what is found out about a machine goes: wisdom, a calibration.
#include <kiln/error.h>

#include <filesystem>

#include "cli/command_line.h"
#include "cli/kiln_command.h"
#include "cli/output_file.h"
#include "format/format.h"

namespace kiln::cli {

Output settings_output(const Call& call, const std::string& what, const std::filesystem::path& usual) {
    const std::filesystem::path file =
        call.has("output") ? std::filesystem::path(call.value("output")) : usual;
    if (file.empty())
        throw UsageError(
            formatted("there is no file for {}: none of KILN_WISDOM, XDG_CONFIG_HOME and HOME is set; add "
                      "--output FILE.",
                      what));
    // Storing would create it as well, but the output is checked earlier.
    const std::filesystem::path folder = file.parent_path();
    std::error_code error;
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error)
        throw UsageError(formatted("{} can't be written to {}: {}.", what, file.string(), error.message()));
    Output output(call.has("output") ? "--output" : what, file);
    output.check_json(call.options.json);
    return output;
}

}  // namespace kiln::cli
