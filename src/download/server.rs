//! Server side of a file: its size and checksum, and requests for ranges.

use std::io::Read;

use safelight_core::uri::is_of_this_machine;
use ureq::config::Config;
use ureq::http::{HeaderMap, Response, StatusCode, header};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, RequestBuilder};

use super::{DownloadError, DownloadOptions, trust};

/// The longest list of wheels has less than 2 MB.
const MAX_PAGE_BYTES: u64 = 8 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemoteFile {
    pub(super) bytes: u64,
    /// Lower-case hexadecimal, where the server tells it.
    pub(super) sha256: Option<String>,
    /// Another one means another content.
    pub(super) version: String,
    /// Content tag of the host that sends the bytes.
    etag: Option<String>,
    /// True if ranges are supported.
    pub(super) has_pieces: bool,
}

pub(super) struct RemoteServer {
    /// Shows where a server leads on to.
    asking: Agent,
    following: Agent,
    token: Option<String>,
}

impl RemoteServer {
    pub(super) fn new(options: &DownloadOptions) -> Self {
        let config = || {
            Config::builder()
                .http_status_as_error(false)
                .user_agent(concat!("safelight/", env!("CARGO_PKG_VERSION")))
                .accept_encoding("identity")
                .tls_config(trust::tls())
                .timeout_connect(Some(options.patience))
                .timeout_recv_response(Some(options.patience))
                .timeout_per_read(Some(options.patience))
        };
        let asking = config().max_redirects(0).max_redirects_will_error(false);
        Self {
            asking: asking.build().new_agent(),
            following: config().build().new_agent(),
            token: options.token.clone(),
        }
    }

    /// Size and checksum of a file. The hub sends them with its response, before it redirects to another host.
    pub(super) fn ask(&self, url: &str) -> Result<RemoteFile, DownloadError> {
        let first = self.head(&self.asking, url)?;
        let mut headers = first.headers().clone();
        let mut status = first.status();
        if status.is_redirection() {
            let last = self.head(&self.following, url)?;
            status = last.status();
            for (name, value) in last.headers() {
                if !name.as_str().starts_with("x-linked-") {
                    headers.insert(name, value.clone());
                }
            }
        }
        sound(status, url)?;
        let linked = text(&headers, "x-linked-etag").map(|tag| unquoted(&tag));
        let own = text(&headers, "etag").map(|tag| unquoted(&tag));
        let bytes = text(&headers, "x-linked-size")
            .or_else(|| text(&headers, "content-length"))
            .and_then(|bytes| bytes.parse().ok())
            .ok_or_else(|| {
                DownloadError::refused("the server does not say how large the file is", url)
            })?;
        let sha256 = linked.clone().filter(|tag| is_sha256(tag));
        Ok(RemoteFile {
            bytes,
            sha256,
            version: linked
                .or_else(|| own.clone())
                .or_else(|| text(&headers, "last-modified"))
                .unwrap_or_default(),
            etag: own,
            has_pieces: text(&headers, "accept-ranges").is_some_and(|unit| unit == "bytes"),
        })
    }

    /// A page of text.
    pub(super) fn page(&self, url: &str) -> Result<String, DownloadError> {
        let request = self.following.get(url).config();
        let request = request.https_only(!is_of_this_machine(url)).build();
        let answer = self.with_token(request).call();
        let answer = answer.map_err(|err| unreachable_server(&err, url))?;
        sound(answer.status(), url)?;
        let mut text = String::new();
        let mut body = answer.into_body().into_reader().take(MAX_PAGE_BYTES);
        let read = body.read_to_string(&mut text);
        read.map_err(|err| DownloadError::unreachable(err.to_string(), url))?;
        Ok(text)
    }

    fn with_token(&self, request: RequestBuilder<WithoutBody>) -> RequestBuilder<WithoutBody> {
        match &self.token {
            Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        }
    }

    fn head(&self, agent: &Agent, url: &str) -> Result<Response<Body>, DownloadError> {
        let request = agent
            .head(url)
            .config()
            .https_only(!is_of_this_machine(url))
            .build();
        let answer = self.with_token(request).call();
        answer.map_err(|err| unreachable_server(&err, url))
    }

    /// The bytes from `start` up to `end`, or from 0 where the server gives no pieces.
    pub(super) fn read(
        &self,
        url: &str,
        file: &RemoteFile,
        (start, end): (u64, u64),
    ) -> Result<impl Read + use<>, DownloadError> {
        let request = self
            .following
            .get(url)
            .config()
            .https_only(!is_of_this_machine(url));
        let mut request = self.with_token(request.build());
        let is_part = file.has_pieces && (start, end) != (0, file.bytes);
        if is_part {
            request = request.header(header::RANGE, format!("bytes={start}-{}", end - 1));
        }
        let answer = request
            .call()
            .map_err(|err| unreachable_server(&err, url))?;
        sound(answer.status(), url)?;
        let expected = if is_part {
            format!("bytes {start}-{}/{}", end - 1, file.bytes)
        } else {
            file.bytes.to_string()
        };
        let etag = text(answer.headers(), "etag").map(|tag| unquoted(&tag));
        if etag.is_some() && file.etag.is_some() && etag != file.etag {
            return Err(DownloadError::changed(url));
        }
        let (status, name) = if is_part {
            (StatusCode::PARTIAL_CONTENT, "content-range")
        } else {
            (StatusCode::OK, "content-length")
        };
        let found = text(answer.headers(), name);
        let has_status = answer.status() == status;
        match found {
            Some(found) if has_status && found == expected => {}
            // Another size of the whole is another state of the file.
            Some(found)
                if has_status && found.rsplit('/').next() != expected.rsplit('/').next() =>
            {
                return Err(DownloadError::changed(url));
            }
            found => {
                let found = found.as_deref().unwrap_or("all or none");
                let fault = format!("bytes {found} instead of {expected}");
                let sentence = format!("the server sent {fault}");
                return Err(DownloadError::temporary(fault, sentence, url));
            }
        }
        // Never more than requested.
        Ok(answer.into_body().into_reader().take(end - start))
    }
}

fn sound(status: StatusCode, url: &str) -> Result<(), DownloadError> {
    let refused = |sentence: &str| Err(DownloadError::refused(sentence, url));
    match status.as_u16() {
        200..300 => Ok(()),
        401 | 403 => Err(DownloadError::gated(url)),
        404 | 410 => refused("the file is not on the server"),
        status => {
            let fault = format!("error {status}");
            let sentence = format!("the server answered with {fault} instead of the file");
            match status {
                408 | 429 | 500.. => Err(DownloadError::temporary(fault, sentence, url)),
                _ => refused(&sentence),
            }
        }
    }
}

fn unreachable_server(err: &ureq::Error, url: &str) -> DownloadError {
    match err {
        ureq::Error::TooManyRedirects
        | ureq::Error::RedirectFailed
        | ureq::Error::RequireHttpsOnly(_)
        | ureq::Error::BadUri(_) => {
            let sentence = format!(
                "the server redirects to another place ({err}), so nothing is downloaded from it"
            );
            DownloadError::refused(sentence, url)
        }
        _ if trust::is_stranger(err) => DownloadError::refused(
            "nobody whom this system trusts has signed the server's certificate; in a network that puts its own in front, install that network's root certificate, or name its file in SSL_CERT_FILE",
            url,
        ),
        _ => DownloadError::unreachable(err.to_string(), url),
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.trim().to_owned())
}

/// `W/"abc"` → `abc`
fn unquoted(tag: &str) -> String {
    tag.trim_start_matches("W/").trim_matches('"').to_owned()
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_server_without_tls_is_refused() {
        let remote = RemoteServer::new(&DownloadOptions::default());
        // Everything comes over TLS, wherever a server leads on to. The name leads nowhere: it is refused before anybody is looked for.
        let err = remote
            .ask("http://mirror.invalid/a.safetensors")
            .unwrap_err();
        assert!(
            err.to_string().contains("redirects to another place"),
            "{err}"
        );
    }
}
