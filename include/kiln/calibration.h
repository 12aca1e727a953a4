// SPDX-License-Identifier: Apache-2.0
//
// Calibration: how far the model that chooses variants is from what was measured on one kind of device, as a function of
// the variant and the problem. `kiln calibrate` measures and fits one; those of some devices are shipped.
#pragma once

#include <kiln/service.h>
#include <kiln/version.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

class Model;

inline namespace KILN_ABI {

/// The time of a variant for a problem, as it was measured.
struct MeasuredTime {
    std::string problem;  ///< anything that names it: times of one problem are compared with each other
    std::string variant;  ///< Variant::text()
    Sizes sizes;          ///< of the problem
    double us = 0;        ///< per launch, with cold L2
};

/// The loss of choosing: the time of the variant that the model puts first over that of the fastest, of those that were
/// measured for a problem.
struct ChoiceLoss {
    double mean = 1;          ///< geometric mean over the problems
    double percentile90 = 1;  ///< for nine of ten problems it is at most this
};

/// What Calibration::fit() made of the measurements.
struct CalibrationReport {
    std::size_t problems = 0;  ///< that have two times or more
    std::size_t times = 0;     ///< that were used
    std::size_t left_out = 0;  ///< times of variants that the templates no longer have or allow
    std::size_t held_out =
        0;  ///< problems that the following two are about: a fit to the others is judged by them
    ChoiceLoss by_model;    ///< of the model alone, with the calibration of before if there is one
    ChoiceLoss calibrated;  ///< of the model with that fit
    std::size_t fitted_before =
        0;  ///< problems that were left out since the calibration of before was fitted to them
};

/// Factors of the model's estimates for one kind of device. Immutable; copies share their content.
class Calibration {
  public:
    Calibration();

    /// Fits a calibration for the service's target to measured times of its templates' variants. device: its name. before:
    /// a calibration of the same device that is to be corrected by these times rather than replaced; what it says of
    /// kernels like none of theirs stays. Problems that `before` was fitted to are left out, as they could not judge the
    /// result. It depends on `before` and on the times and their order only. Throws UsageError where there are too few times,
    /// and TemplateError.
    static Calibration fit(const Service& service, const std::string& device,
                           std::span<const MeasuredTime> times, CalibrationReport* report = nullptr,
                           const Calibration& before = Calibration());
    /// Parses the text of a calibration file. Throws UsageError naming file and line for what is not right.
    static std::vector<Calibration> parse(std::string_view text, const std::string& file);
    /// Throws the same, but leaves out those for other versions of the model; none if there is no such file.
    static std::vector<Calibration> load(const std::filesystem::path& file);
    /// calibration.txt next to the user's wisdom; empty: there is no place for it.
    static std::filesystem::path user_file();
    /// The calibration to use for a device: from the user's file, else the shipped one of it, else the shipped one of the
    /// device of this architecture whose bandwidth is nearest; an empty one if there is none. Kinds of kernels that
    /// it lacks are those of the nearest shipped one that has them. `problem` says why the user's file is not used.
    static Calibration usual(const std::string& device, const std::string& arch,
                             std::string* problem = nullptr);
    /// The same, but one of `own` for this device takes precedence over that of the user's file.
    static Calibration usual(std::span<const Calibration> own, const std::string& device,
                             const std::string& arch, std::string* problem = nullptr);
    /// Puts it into a file, in place of one for the same device; others stay. Throws UsageError.
    void store(const std::filesystem::path& file) const;
    /// The same for one that depends on what the file had. earlier: what load() gave of the file before. Throws UsageError
    /// where its calibration for this device is another one by now; it stays.
    void store(const std::filesystem::path& file, std::span<const Calibration> earlier) const;

    bool empty() const;                 ///< changes no estimate
    const std::string& device() const;  ///< "NVIDIA H200"
    const std::string& arch() const;    ///< "sm_90a"
    const std::string& date() const;    ///< UTC, when it was fitted
    /// How many problems it was fitted to, as far as that is known: of the shipped ones it is not.
    std::size_t fitted_problems() const;
    /// As in a file, but for the file's first and last lines.
    std::string text() const;

  private:
    friend class kiln::Model;
    struct Content;
    explicit Calibration(std::shared_ptr<const Content> content);
    struct Shipped;

    std::shared_ptr<const Content> content_;
};

}  // namespace KILN_ABI
}  // namespace kiln
