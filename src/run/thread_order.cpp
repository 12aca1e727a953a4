// SPDX-License-Identifier: Apache-2.0
//
// The order is that of a seed, as KILN_HOST_SEED's.
#include "run/thread_order.h"

#include "base/config.h"
#include "device/driver.h"

namespace kiln {

OtherThreadOrder::OtherThreadOrder(const Service& service) : driver_(service.device().driver()) {
    driver_->order_threads(config::host_seed().value_or(0) + 1);
}
OtherThreadOrder::~OtherThreadOrder() { driver_->order_threads(config::host_seed()); }

}  // namespace kiln
