//! Certificates that are trusted: Mozilla's, which are built in, and this system's, where companies put their own.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls_native_certs::{CertificateResult, load_certs_from_paths, load_native_certs};
use ureq::tls::{Certificate, TlsConfig};

/// TLS that knows both, and those in one more file; also what could not be read.
pub fn tls(more: Option<&Path>) -> (TlsConfig, Vec<rustls_native_certs::Error>) {
    let mut system = load_native_certs();
    if more.is_some() {
        let CertificateResult { certs, errors, .. } = load_certs_from_paths(more, None);
        system.certs.extend(certs);
        system.errors.extend(errors);
    }
    let own = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    let all = own.chain(&system.certs);
    let roots = all.map(|certificate| Certificate::from_der(certificate).to_owned());
    let config = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(roots.into())
        .build();
    (config, system.errors)
}
