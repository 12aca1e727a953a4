// SPDX-License-Identifier: Apache-2.0
//
#include "run/thread_order.h"

#include "device/driver.h"

namespace kiln {

OtherThreadOrder::OtherThreadOrder(const Service& service, int number)
    : driver_(service.device().driver()), number_(number) {
    driver_->other_thread_order(number_);
}
OtherThreadOrder::~OtherThreadOrder() { driver_->other_thread_order(-number_); }

}  // namespace kiln
