// SPDX-License-Identifier: Apache-2.0
//
// Every error that Kiln throws. Each message is a whole paragraph for a person: what was wrong, the
// value, and the nearest right choice. Catch kiln::Error for all of them.
#pragma once

#include <kiln/types.h>
#include <kiln/version.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace kiln {
inline namespace KILN_ABI {

/// Base of all errors of the library. what() is complete; the accessors below only repeat its parts.
class Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Wrong use of the API or of an option that has no more specific class: an unknown template or
/// backend, a bad architecture name, a wrong parameter list at build<Fn>.
class UsageError : public Error {
  public:
    using Error::Error;
};

/// A template file or directory that can't be read, or whose front matter is wrong.
/// what() starts with "file:line:column: ", or "file: " when it is about the whole of it (line 0).
class TemplateError : public Error {
  public:
    /// what() becomes "file:line:column: message".
    TemplateError(std::string file, int line, int column, const std::string& message)
        : Error(file + (line == 0 ? "" : ":" + std::to_string(line) + ":" + std::to_string(column)) + ": " +
                message),
          file_(std::move(file)),
          line_(line),
          column_(column) {}

    /// As the template was named when it was parsed.
    const std::string& file() const { return file_; }
    int line() const { return line_; }      ///< from 1; 0: the whole file
    int column() const { return column_; }  ///< from 1

  private:
    std::string file_;
    int line_;
    int column_;
};

/// Values that are not a legal variant: not allowed, against a require rule, or beyond the device.
class VariantError : public Error {
  public:
    /// rule: the text of the violated rule ("BM % TM == 0"), empty for a value outside its list.
    VariantError(const std::string& message, std::string rule = {})
        : Error(message), rule_(std::move(rule)) {}

    /// The rule that does not hold; empty for a value outside its list.
    const std::string& rule() const { return rule_; }

  private:
    std::string rule_;
};

/// A compiler rejected the source, died, ran out of time, or is not there. Where the temporary files of a compile can't be
/// made, the std::system_error is nested in it.
class BuildError : public Error {
  public:
    /// log: the compiler's own words, with the template's file name and lines; may be empty.
    BuildError(const std::string& message, std::string log = {})
        : Error(log.empty() ? message : message + "\n" + log), log_(std::move(log)) {}

    /// The compiler's own words; may be empty.
    const std::string& log() const { return log_; }

  private:
    std::string log_;
};

/// A cache directory or entry that can't be used, where the caller asked for it by name. Look-ups
/// never throw this: for them damage is a miss.
class CacheError : public Error {
  public:
    using Error::Error;
};

/// A driver call failed, or no device is there.
class DeviceError : public Error {
  public:
    /// call: the driver's function ("cuLaunchKernel"); code: its result, 0 where none applies.
    DeviceError(const std::string& message, std::string call = {}, int code = 0)
        : Error(message), call_(std::move(call)), code_(code) {}

    /// The driver's function; may be empty.
    const std::string& call() const { return call_; }
    /// The driver's result; 0 where none applies.
    int code() const { return code_; }

  private:
    std::string call_;
    int code_;
};

/// A call could not be served without compiling, loading or allocating, and was not allowed to: in a stream capture,
/// with WhenMissing::fail, or where ServiceOptions::cached_only forbids compiling and no tier has a variant for the
/// shape. what() names the shape to prepare.
class NotReadyError : public Error {
  public:
    /// sizes: of the call.
    NotReadyError(const std::string& message, Sizes sizes) : Error(message), sizes_(std::move(sizes)) {}
    /// The shape to prepare.
    const Sizes& sizes() const { return sizes_; }

  private:
    Sizes sizes_;
};

}  // namespace KILN_ABI
}  // namespace kiln
