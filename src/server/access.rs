//! Access: a token on addresses that others reach, and from browsers only the server's own pages.
//!
//! A browser lets any web site send requests to `localhost`, so the Host and Origin headers are checked: a foreign name
//! for this address (DNS rebinding) and a foreign page (cross-site requests) are refused.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use super::context::ServerContext;
use super::error::ApiError;

const TOKEN_COOKIE: &str = "safelight_token";

pub(super) async fn check(
    State(context): State<ServerContext>,
    request: Request,
    next: Next,
) -> Response {
    let options = &context.0.options;
    if let Err(err) = check_names(request.headers(), options.address) {
        return err.into_response();
    }
    let Some(token) = &options.token else {
        return next.run(request).await;
    };
    if let Some(given) = token_of_query(request.uri()) {
        return if is_same(given, token) {
            enter(request.uri(), token)
        } else {
            unauthorised().into_response()
        };
    }
    let given = token_of_headers(request.headers());
    if given.is_some_and(|given| is_same(given, token)) {
        return next.run(request).await;
    }
    unauthorised().into_response()
}

fn unauthorised() -> ApiError {
    let message = "the token is missing or wrong: send `Authorization: Bearer TOKEN`, or open the \
                   address that Safelight shows";
    ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
}

/// Checks the names by which a browser may have come here.
fn check_names(headers: &HeaderMap, address: SocketAddr) -> Result<(), ApiError> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let refused = |message: &str| {
        let err = ApiError::new(StatusCode::FORBIDDEN, "forbidden", message);
        Err(err)
    };
    let host = text(HOST).unwrap_or_default();
    // With a token, no web site can do anything under another name.
    if address.ip().is_loopback() && !is_loopback_name(name_of(host)) {
        return refused("this server only answers under the name localhost or its own address");
    }
    match text(ORIGIN) {
        None => Ok(()),
        Some(origin) => {
            let own = origin.split_once("://").map(|(_, host)| host);
            if own == Some(host) {
                Ok(())
            } else {
                refused("this server does not answer to other web sites")
            }
        }
    }
}

/// `localhost` of `localhost:7860`, `::1` of `[::1]:7860`; empty where another text follows.
fn name_of(host: &str) -> &str {
    let split = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']'),
        None => Some(host.split_at(host.find(':').unwrap_or(host.len()))),
    };
    let is_port = |rest: &str| match rest.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok(),
        None => rest.is_empty(),
    };
    let split = split.filter(|(_, rest)| is_port(rest));
    split.map_or("", |(name, _)| name)
}

fn is_loopback_name(name: &str) -> bool {
    let address = name.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn token_of_query(uri: &Uri) -> Option<&str> {
    let pairs = uri.query()?.split('&');
    let mut tokens = pairs.filter_map(|pair| pair.strip_prefix("token="));
    tokens.next().filter(|_| uri.path() == "/")
}

fn token_of_headers(headers: &HeaderMap) -> Option<&str> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let given = text(AUTHORIZATION).and_then(|text| text.split_once(' '));
    if let Some((_, token)) = given.filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer")) {
        return Some(token.trim());
    }
    let mut cookies = text(COOKIE)?.split(';').map(str::trim);
    cookies.find_map(|cookie| cookie.strip_prefix(TOKEN_COOKIE)?.strip_prefix('='))
}

/// The page without the token in its address, which the browser keeps as a cookie.
fn enter(uri: &Uri, token: &str) -> Response {
    let cookie =
        format!("{TOKEN_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age=31536000");
    let headers = [(SET_COOKIE, cookie), (LOCATION, uri.path().to_owned())];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// Compares in a time that does not depend on where the texts differ.
fn is_same(given: &str, token: &str) -> bool {
    let digest = |text: &str| Sha256::digest(text.as_bytes());
    let pairs = digest(given).into_iter().zip(digest(token));
    pairs.fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn checked(address: &str, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        check_names(&headers, address.parse().unwrap()).is_ok()
    }

    #[test]
    fn foreign_names_and_foreign_pages_are_refused() {
        let own = "127.0.0.1:7860";
        for (host, origin, expected) in [
            ("localhost:7860", None, true),
            ("127.0.0.1:7860", Some("http://127.0.0.1:7860"), true),
            ("[::1]:7860", None, true),
            ("rebound.example:7860", None, false),
            ("127.0.0.1.example", None, false),
            ("[::1]evil", None, false),
            ("localhost:7860.evil", None, false),
            ("", None, false),
            ("localhost:7860", Some("http://evil.example"), false),
            ("localhost:7860", Some("null"), false),
            ("localhost:7860", Some("http://localhost:9999"), false),
        ] {
            assert_eq!(checked(own, host, origin), expected, "{host} {origin:?}");
        }
        // With a token, under any name, but from its own page.
        assert!(checked("0.0.0.0:7860", "box.lan:7860", None));
        assert!(!checked(
            "0.0.0.0:7860",
            "box.lan",
            Some("http://other.lan")
        ));
    }

    #[test]
    fn token_is_found_in_the_header_the_cookie_and_the_address_of_the_page() {
        let of = |name, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            token_of_headers(&headers).map(ToOwned::to_owned)
        };
        assert_eq!(of(AUTHORIZATION, "Bearer abc").as_deref(), Some("abc"));
        let cookies = "a=b; safelight_token=abc; c=d";
        assert_eq!(of(COOKIE, cookies).as_deref(), Some("abc"));
        assert_eq!(of(COOKIE, "safelight_tokens=abc"), None);
        let page = "/?x=1&token=abc".parse().unwrap();
        assert_eq!(token_of_query(&page), Some("abc"));
        let other = "/api/jobs?token=abc".parse().unwrap();
        assert_eq!(token_of_query(&other), None);
    }
}
