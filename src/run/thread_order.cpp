// SPDX-License-Identifier: Apache-2.0
//
#include "run/thread_order.h"

#include "device/driver.h"

namespace kiln {

OtherThreadOrder::OtherThreadOrder(const Service& service) : driver_(service.device().driver()) {
    driver_->other_thread_order(true);
}
OtherThreadOrder::~OtherThreadOrder() { driver_->other_thread_order(false); }

}  // namespace kiln
