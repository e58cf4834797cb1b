//! Waiting for the session's message bus, for a thread that has nothing else to do.
//!
//! Knows no message; that a bus is missing is for the caller to keep quiet about.

use std::future::Future;
use std::time::Duration;

use async_io::Timer;
use futures_lite::future;
use zbus::{Connection, MatchRule, MessageStream, message};

pub(super) async fn session() -> zbus::Result<Connection> {
    Connection::session().await
}

pub(super) async fn signals(
    connection: &Connection,
    interface: &'static str,
) -> zbus::Result<MessageStream> {
    let rule = MatchRule::builder()
        .msg_type(message::Type::Signal)
        .interface(interface)?
        .build();
    MessageStream::for_match_rule(rule, connection, None).await
}

/// FrameSegments to its end on this thread.
pub(super) fn wait<T>(work: impl Future<Output = T>) -> T {
    async_io::block_on(work)
}

/// The same; `None` when it takes longer.
pub(super) fn wait_at_most<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let late = async {
        Timer::after(limit).await;
        None
    };
    wait(future::or(async { Some(work.await) }, late))
}
