//! Certificates trusted by downloads: those built in from Mozilla, and this system's.

use std::sync::OnceLock;

use rustls::CertificateError::UnknownIssuer;
use rustls::Error::InvalidCertificate;
use ureq::tls::TlsConfig;

/// TLS configuration with both; the system's are read once.
pub(super) fn tls() -> TlsConfig {
    static TLS: OnceLock<TlsConfig> = OnceLock::new();
    TLS.get_or_init(|| {
        let (config, errors) = safelight_wheels::tls(None);
        for err in errors {
            tracing::warn!("a certificate of this system cannot be read: {err}");
        }
        config
    })
    .clone()
}

/// Returns true if a server was refused because none of them signed its certificate.
pub(super) fn is_stranger(err: &ureq::Error) -> bool {
    let cause = match err {
        ureq::Error::Rustls(cause) => Some(cause),
        ureq::Error::Io(err) => err.get_ref().and_then(|err| err.downcast_ref()),
        _ => None,
    };
    matches!(cause, Some(InvalidCertificate(UnknownIssuer)))
}
