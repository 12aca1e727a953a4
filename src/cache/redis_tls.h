// SPDX-License-Identifier: Apache-2.0
//
// TLS for connections to Redis, by OpenSSL. The server's certificate must be trusted and name the host. A
// build without OpenSSL (KILN_TLS=OFF) has the same functions, which always fail.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cache/redis_stream.h"

namespace kiln {

/// Whether this build supports TLS.
bool tls_available();

/// What connections share: whom to trust.
class TlsContext {
  public:
    /// ca_file: certificates to trust; empty: the system's. Throws RedisFailure.
    explicit TlsContext(const std::filesystem::path& ca_file);
    ~TlsContext();
    TlsContext(const TlsContext&) = delete;
    TlsContext& operator=(const TlsContext&) = delete;

    /// A client before the handshake. host: whom the certificate must name. Throws RedisFailure.
    std::unique_ptr<RedisStream> make_stream(FileDescriptor socket, const std::string& host) const;

  private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace kiln
