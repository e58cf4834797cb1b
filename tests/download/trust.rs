//! A hub behind a certificate of its own, as in a company's network.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

use super::{Answer, Case, text};

/// A root that nobody knows, as PEM, and TLS with what it has signed for this machine.
fn made_up_root() -> (String, Arc<ServerConfig>) {
    let key = || KeyPair::generate().expect("a key is made");
    let params = |names: &[String]| CertificateParams::new(names).expect("names are valid");
    let mut root = params(&[]);
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(root, key()).expect("it signs itself");
    let own_key = key();
    let own = params(&["127.0.0.1".to_owned()]).signed_by(&own_key, &root);
    let own = own.expect("the root signs");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("it has protocols")
        .with_no_client_auth()
        .with_single_cert(
            vec![own.der().clone()],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own_key.serialize_der())),
        );
    (
        root.pem(),
        Arc::new(config.expect("key and certificate fit")),
    )
}

/// Hands each request on to a server without TLS, and what that answers back; tells its own address.
fn in_front_of(plain: &str, config: Arc<ServerConfig>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let behind = plain.trim_start_matches("http://").to_owned();
    let relay = move || {
        for stream in listener.incoming().flatten() {
            // A client that does not trust us goes away.
            hand_on(stream, &behind, &config).ok();
        }
    };
    let named = thread::Builder::new().name("relay".to_owned());
    named.spawn(relay).expect("a thread starts");
    format!("https://{address}")
}

fn hand_on(mut stream: TcpStream, behind: &str, config: &Arc<ServerConfig>) -> io::Result<()> {
    let connection = ServerConnection::new(Arc::clone(config));
    let mut connection = connection.map_err(io::Error::other)?;
    let mut tls = Stream::new(&mut connection, &mut stream);
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        tls.read_exact(&mut byte)?;
        request.extend(byte);
    }
    let mut server = TcpStream::connect(behind)?;
    server.write_all(&request)?;
    io::copy(&mut server, &mut tls)?;
    connection.send_close_notify();
    connection.complete_io(&mut stream).map(drop)
}

#[test]
fn private_root_certificate_is_trusted_only_through_ssl_cert_file() {
    let case = Case::new(|_, answer| answer);
    let (root, config) = made_up_root();
    let endpoint = in_front_of(&case.server.url, config);
    let file = case.home.path().join("company.pem");
    fs::write(&file, root).unwrap();
    let download = || {
        let mut command = case.command(&["download", "tiny", "--yes"]);
        command.env("HF_ENDPOINT", &endpoint);
        command
    };

    let refused = download().output().unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("SSL_CERT_FILE"), "{said}");
    assert!(said.contains(&endpoint), "{said}");
    assert!(case.server.requests("HEAD").is_empty(), "not even asked");

    let trusted = download().env("SSL_CERT_FILE", &file).output().unwrap();
    let said = text(&trusted.stderr);
    assert_eq!(trusted.status.code(), Some(0), "{said}");
    assert_eq!(text(&trusted.stdout).lines().count(), 3);
}

#[test]
fn a_server_with_tls_cannot_lead_to_one_without() {
    let case = Case::new(|_, _| Answer::of(302).with("location", "http://mirror.invalid/file"));
    let (root, config) = made_up_root();
    let file = case.home.path().join("company.pem");
    fs::write(&file, root).unwrap();
    let output = case
        .command(&["download", "tiny", "--yes"])
        .env("HF_ENDPOINT", in_front_of(&case.server.url, config))
        .env("SSL_CERT_FILE", &file)
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("redirects to another place"), "{said}");
}
