//! The page for phones and laptops: static files from the program itself.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::IntoResponse as _;
use axum::routing::get;

use super::context::ServerContext;

/// Path, kind and text of each file.
const FILES: [(&str, &str, &str); 5] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../../assets/page/index.html"),
    ),
    (
        "/page.css",
        "text/css; charset=utf-8",
        include_str!("../../assets/page/page.css"),
    ),
    (
        "/page.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/page/page.js"),
    ),
    (
        "/docs",
        "text/html; charset=utf-8",
        include_str!("../../assets/page/docs.html"),
    ),
    (
        "/docs.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/page/docs.js"),
    ),
];
/// Nothing from elsewhere, and no page around this one.
const POLICY: &str = "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

pub fn routes() -> Router<ServerContext> {
    let mut router = Router::new();
    for (path, kind, text) in FILES {
        let send = move || async move {
            let headers = [
                (CONTENT_TYPE, kind),
                (CONTENT_SECURITY_POLICY, POLICY),
                (X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (CACHE_CONTROL, "no-cache"),
            ];
            (headers, text).into_response()
        };
        router = router.route(path, get(send));
    }
    router
}
