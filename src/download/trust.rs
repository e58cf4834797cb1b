//! Whom downloads trust: the certificates of Mozilla, which are built in, and those of this system, where companies put their own.

use std::sync::{Arc, OnceLock};

use rustls::CertificateError::UnknownIssuer;
use rustls::Error::InvalidCertificate;
use rustls::crypto::ring;
use ureq::tls::{Certificate, TlsConfig};

/// TLS that knows both. The system's are read once.
pub(super) fn tls() -> TlsConfig {
    static TLS: OnceLock<TlsConfig> = OnceLock::new();
    TLS.get_or_init(|| {
        let system = rustls_native_certs::load_native_certs();
        for err in &system.errors {
            tracing::warn!("a certificate of this system cannot be read: {err}");
        }
        let own = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
        let all = own.chain(&system.certs);
        let roots = all.map(|certificate| Certificate::from_der(certificate).to_owned());
        TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .root_certs(roots.into())
            .build()
    })
    .clone()
}

/// Whether a server was refused because none of them has signed its certificate.
pub(super) fn is_stranger(err: &ureq::Error) -> bool {
    let cause = match err {
        ureq::Error::Rustls(cause) => Some(cause),
        ureq::Error::Io(err) => err.get_ref().and_then(|err| err.downcast_ref()),
        _ => None,
    };
    matches!(cause, Some(InvalidCertificate(UnknownIssuer)))
}
