// SPDX-License-Identifier: Apache-2.0
//
// The functions of OpenSSL that Kiln uses. Its libraries are opened by the first connection that needs TLS, since programs
// that link them take longer to start; linked only where all libraries are (KILN_STATIC_DEPS).
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <string>

#include "base/dynamic_library.h"

namespace kiln {

// clang-format off
#define KILN_OPENSSL_FUNCTIONS(use)                                                                        \
    use(OPENSSL_init_ssl) use(TLS_client_method) use(ERR_get_error) use(ERR_clear_error)                   \
    use(ERR_reason_error_string) use(BIO_meth_new) use(BIO_meth_free) use(BIO_meth_set_write_ex)           \
    use(BIO_meth_set_read_ex) use(BIO_meth_set_ctrl) use(BIO_new) use(BIO_set_data) use(BIO_get_data)      \
    use(BIO_set_init) use(BIO_set_flags) use(BIO_clear_flags) use(SSL_CTX_new) use(SSL_CTX_free)           \
    use(SSL_CTX_ctrl) use(SSL_CTX_set_default_verify_paths) use(SSL_CTX_load_verify_locations)             \
    use(SSL_CTX_set_verify) use(SSL_new) use(SSL_free) use(SSL_ctrl) use(SSL_set_bio)                      \
    use(SSL_set_connect_state) use(SSL_get0_param) use(X509_VERIFY_PARAM_set1_ip_asc) use(SSL_set1_host)   \
    use(SSL_do_handshake) use(SSL_read_ex) use(SSL_write_ex) use(SSL_get_error)                            \
    use(SSL_get_verify_result) use(X509_verify_cert_error_string)
// clang-format on

/// By their own names. Immutable once made; shared by all threads for the rest of the process.
struct OpenSslApi {
#define KILN_DECLARE(function) decltype(&::function) function = nullptr;
    KILN_OPENSSL_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
    DynamicLibrary library;
};

/// Opened at the first call. nullptr when there is none that works; `reason`, when given, then receives
/// why, as the end of a sentence.
const OpenSslApi* openssl_api(std::string* reason = nullptr);

}  // namespace kiln
