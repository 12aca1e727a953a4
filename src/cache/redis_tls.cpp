// SPDX-License-Identifier: Apache-2.0
//
// OpenSSL reads and writes through a BIO of our own, since its socket BIO may raise SIGPIPE.
#include "cache/redis_tls.h"

#ifdef KILN_TLS

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/fork.h"
#include "cache/openssl_api.h"
#include "format/format.h"

namespace kiln {
namespace {

// OpenSSL's locks know nothing of fork(), so each call of it excludes fork(). That is short, since no such call waits
// for the network.

/// Of a process that has made a TlsContext.
const OpenSslApi& api() { return *openssl_api(); }

struct Free {
    void operator()(SSL_CTX* context) const {
        const ForkExclusion here;
        api().SSL_CTX_free(context);
    }
    void operator()(SSL* ssl) const {
        const ForkExclusion here;
        api().SSL_free(ssl);
    }
    void operator()(BIO_METHOD* method) const {
        const ForkExclusion here;
        api().BIO_meth_free(method);
    }
};
using SslContext = std::unique_ptr<SSL_CTX, Free>;
using Ssl = std::unique_ptr<SSL, Free>;
using BioMethod = std::unique_ptr<BIO_METHOD, Free>;

/// The first entry of OpenSSL's queue of errors, which is emptied.
std::string openssl_error() {
    const auto code = api().ERR_get_error();
    api().ERR_clear_error();
    const char* reason = api().ERR_reason_error_string(code);
    return reason != nullptr ? reason : formatted("error {}", code);
}

struct Socket {
    int descriptor = -1;
    bool closed = false;
};

int bio_result(BIO* bio, ssize_t count, int retry, std::size_t* done) {
    api().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    *done = count > 0 ? static_cast<std::size_t>(count) : 0;
    if (count > 0) return 1;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        api().BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    else
        static_cast<Socket*>(api().BIO_get_data(bio))->closed = true;
    return 0;
}

int bio_write(BIO* bio, const char* bytes, std::size_t size, std::size_t* done) {
    const auto* socket = static_cast<const Socket*>(api().BIO_get_data(bio));
    return bio_result(bio, ::send(socket->descriptor, bytes, size, MSG_NOSIGNAL), BIO_FLAGS_WRITE, done);
}

int bio_read(BIO* bio, char* buffer, std::size_t size, std::size_t* done) {
    const auto* socket = static_cast<const Socket*>(api().BIO_get_data(bio));
    return bio_result(bio, ::recv(socket->descriptor, buffer, size, 0), BIO_FLAGS_READ, done);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BioMethod make_bio_method() {
    BioMethod method(api().BIO_meth_new(BIO_TYPE_SOURCE_SINK, "kiln socket"));
    if (!method || api().BIO_meth_set_write_ex(method.get(), bio_write) != 1 ||
        api().BIO_meth_set_read_ex(method.get(), bio_read) != 1 ||
        api().BIO_meth_set_ctrl(method.get(), bio_control) != 1)
        throw RedisFailure("could not be given a TLS connection (" + openssl_error() + ")");
    return method;
}

}  // namespace

struct TlsContext::State {
    BioMethod method;
    SslContext context;
};

namespace {

class TlsStream : public RedisStream {
  public:
    TlsStream(FileDescriptor socket, std::shared_ptr<const void> context, SSL_CTX* ssl_context,
              const BIO_METHOD* method, const std::string& host)
        : RedisStream(std::move(socket)), context_(std::move(context)), ssl_(api().SSL_new(ssl_context)) {
        socket_.descriptor = descriptor();
        BIO* bio = ssl_ ? api().BIO_new(method) : nullptr;
        if (bio == nullptr)
            throw RedisFailure("could not be given a TLS connection (" + openssl_error() + ")");
        api().BIO_set_data(bio, &socket_);
        api().BIO_set_init(bio, 1);
        api().SSL_set_bio(ssl_.get(), bio, bio);
        api().SSL_set_connect_state(ssl_.get());
        // An address is named by the certificate as an address, and is no name for the server to choose by.
        const bool is_address =
            api().X509_VERIFY_PARAM_set1_ip_asc(api().SSL_get0_param(ssl_.get()), host.c_str()) == 1;
        api().ERR_clear_error();
        if (!is_address && (api().SSL_set1_host(ssl_.get(), host.c_str()) != 1 ||
                            api().SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME,
                                           TLSEXT_NAMETYPE_host_name, const_cast<char*>(host.c_str())) != 1))
            throw RedisFailure("has a host name that TLS can't check (" + openssl_error() + ")");
    }

    Result handshake() override {
        const ForkExclusion here;
        api().ERR_clear_error();
        return result(api().SSL_do_handshake(ssl_.get()), 0);
    }

    Result send(std::span<const std::byte> bytes) override {
        const ForkExclusion here;
        api().ERR_clear_error();
        std::size_t count = 0;
        const int done = api().SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
        return result(done, count);
    }

    Result receive(std::span<std::byte> buffer) override {
        const ForkExclusion here;
        api().ERR_clear_error();
        std::size_t count = 0;
        const int done = api().SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &count);
        return result(done, count);
    }

  private:
    Result result(int done, std::size_t count) {
        if (done == 1) return {Result::Status::done, count};
        switch (api().SSL_get_error(ssl_.get(), done)) {
            case SSL_ERROR_WANT_READ:
                return {Result::Status::wait_to_read, 0};
            case SSL_ERROR_WANT_WRITE:
                return {Result::Status::wait_to_write, 0};
            case SSL_ERROR_ZERO_RETURN:
                return {Result::Status::closed, 0};
            default:
                break;
        }
        if (socket_.closed) {
            api().ERR_clear_error();
            return {Result::Status::closed, 0};
        }
        const long verdict = api().SSL_get_verify_result(ssl_.get());
        if (verdict != X509_V_OK) {
            api().ERR_clear_error();
            throw RedisFailure(std::string("has a certificate that is not trusted (") +
                               api().X509_verify_cert_error_string(verdict) + ")");
        }
        throw RedisFailure("failed at TLS (" + openssl_error() + ")");
    }

    std::shared_ptr<const void> context_;
    Socket socket_;
    Ssl ssl_;
};

}  // namespace

bool tls_available() { return true; }

TlsContext::TlsContext(const std::filesystem::path& ca_file) : state_(std::make_shared<State>()) {
    // Before fork() is excluded: opening a library may wait for one, which waits for the end of exclusions.
    std::string reason;
    if (openssl_api(&reason) == nullptr) throw RedisFailure("needs TLS: " + reason);
    const ForkExclusion here;
    // By default OpenSSL destroys its state at exit, while other threads and static objects still use it.
    (void)api().OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
    api().ERR_clear_error();
    state_->method = make_bio_method();
    state_->context.reset(api().SSL_CTX_new(api().TLS_client_method()));
    SSL_CTX* context = state_->context.get();
    const auto fail = [](const std::string& what) {
        throw RedisFailure(what + " (" + openssl_error() + ")");
    };
    if (context == nullptr ||
        api().SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr) != 1)
        fail("could not be given a TLS connection");
    if (ca_file.empty() ? api().SSL_CTX_set_default_verify_paths(context) != 1
                        : api().SSL_CTX_load_verify_locations(context, ca_file.c_str(), nullptr) != 1)
        fail(ca_file.empty() ? std::string("can't be trusted: the system's certificates can't be read")
                             : "can't be trusted: there are no sound certificates in " + ca_file.string());
    api().SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    (void)api().SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                             SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, nullptr);
}

TlsContext::~TlsContext() = default;

std::unique_ptr<RedisStream> TlsContext::make_stream(FileDescriptor socket, const std::string& host) const {
    const ForkExclusion here;
    api().ERR_clear_error();
    return std::make_unique<TlsStream>(std::move(socket), state_, state_->context.get(), state_->method.get(),
                                       host);
}

}  // namespace kiln

#else

namespace kiln {

struct TlsContext::State {};

bool tls_available() { return false; }
TlsContext::TlsContext(const std::filesystem::path&) {
    throw RedisFailure("needs TLS, which this build lacks");
}
TlsContext::~TlsContext() = default;
std::unique_ptr<RedisStream> TlsContext::make_stream(FileDescriptor, const std::string&) const {
    throw RedisFailure("needs TLS, which this build lacks");
}

}  // namespace kiln

#endif
