// SPDX-License-Identifier: Apache-2.0
//
// kiln_graph.
#include <utility>

#include "c/call.h"
#include "c/handle.h"

namespace kiln::c_api {
namespace {

/// A function of the caller reported an error, which is the thread's last one already.
struct RecordFailed {};

}  // namespace
}  // namespace kiln::c_api

using namespace kiln::c_api;

kiln_status kiln_graph_capture(const kiln_service* service, kiln_record_function record, void* user,
                               kiln_graph** graph) {
    kiln_status recorded = KILN_OK;
    const kiln_status status = guarded(__func__, [&] {
        kiln_graph*& place = out(graph, "graph");
        const kiln::Service& of = *object(service).service;
        in(record, "record");
        const kiln::Stream& stream = of.stream();
        try {
            place = make<kiln_graph>({kiln::Graph::capture(stream, [&] {
                const CaptureOfThread capture(stream);
                recorded = record(user, stream.handle());
                if (recorded != KILN_OK) throw RecordFailed();
            })});
        } catch (const RecordFailed&) {
            // its status is returned
        }
    });
    return recorded != KILN_OK ? recorded : status;
}

kiln_status kiln_graph_launch(const kiln_graph* graph, void* stream) {
    return guarded(__func__, [&] { object(graph).value.launch(kiln::StreamRef(stream)); });
}

kiln_status kiln_graph_destroy(kiln_graph* graph) {
    return guarded(__func__, [&] { destroy(graph); });
}
