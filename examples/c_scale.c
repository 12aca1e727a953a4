/* SPDX-License-Identifier: Apache-2.0

   The least there is in C: a kernel from a string, built for whatever this machine has, launched, and its result looked at. */
#include <kiln/c/kiln.h>
#include <stdio.h>

enum { count = 1000 };

static const char* const text =
    "// scale: y = FACTOR * x\n"
    "//@ kernel scale\n"
    "//@ param  FACTOR int in 1..100 = 2  \"the factor\"\n"
    "//@ block  256\n"
    "//@ grid   ceil_div(n, 256)\n"
    "#include \"kiln/device.h\"\n"
    "extern \"C\" __global__ void scale(int n, const float* x, float* y) {\n"
    "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = FACTOR * x[i];\n"
    "}\n";

int main(void) {
    const kiln_value values[] = {{"FACTOR", "3"}};
    kiln_service* service = NULL;
    kiln_template* of = NULL;
    kiln_variant* variant = NULL;
    kiln_kernel* scale = NULL;
    kiln_buffer *x_buffer = NULL, *y_buffer = NULL;
    void *stream = NULL, *x_there = NULL, *y_there = NULL;
    float x[count], y[count];
    int n = count, i, status = 1;
    for (i = 0; i < count; ++i) x[i] = (float)i;

    if (kiln_service_create(NULL, &service) != KILN_OK ||
        kiln_service_parse(service, text, "scale.cu", NULL, 0, &of) != KILN_OK ||
        kiln_template_variant(of, values, 1, &variant) != KILN_OK ||
        kiln_service_build(service, variant, &scale) != KILN_OK || /* from memory, disk, or compiled once */
        kiln_service_stream(service, &stream) != KILN_OK)
        goto done;
    if (kiln_buffer_create(service, sizeof x, &x_buffer) != KILN_OK ||
        kiln_buffer_create(service, sizeof y, &y_buffer) != KILN_OK ||
        kiln_buffer_data(x_buffer, &x_there) != KILN_OK || kiln_buffer_data(y_buffer, &y_there) != KILN_OK ||
        kiln_buffer_write(x_buffer, 0, x, sizeof x) != KILN_OK)
        goto done;

    void* arguments[] = {&n, &x_there, &y_there};
    if (kiln_kernel_launch(scale, stream, NULL, arguments, 3) != KILN_OK || /* returns when it is queued */
        kiln_service_synchronize(service) != KILN_OK || kiln_buffer_read(y_buffer, 0, y, sizeof y) != KILN_OK)
        goto done;
    for (i = 0; i < count; ++i) {
        if (y[i] == 3 * x[i]) continue;
        fprintf(stderr, "y[%d] is %g and should be %g\n", i, y[i], 3 * x[i]);
        goto destroy;
    }
    printf("scaled %d numbers\n", count);
    status = 0;

done:
    if (status != 0) fprintf(stderr, "%s\n", kiln_last_message());
destroy: /* in any order; those that are NULL are passed over */
    kiln_buffer_destroy(y_buffer);
    kiln_buffer_destroy(x_buffer);
    kiln_kernel_destroy(scale);
    kiln_variant_destroy(variant);
    kiln_template_destroy(of);
    kiln_service_destroy(service);
    return status;
}
