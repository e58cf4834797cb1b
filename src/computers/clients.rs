//! Connections of clients to the host process: a thread reads each, another writes to it.

use std::io::{self, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use crossbeam_channel::{Sender, unbounded};
use safelight_core::protocol::{read_frame, write_frame};

use super::{ClientMessage, ComputerInfo, HostMessage, spawn};

pub(super) type Outgoing = (HostMessage, Vec<u8>);

/// Input of the host's thread. Clients are numbered.
pub(super) enum HostInput {
    Joined(u64, Sender<Outgoing>),
    Left(u64),
    Message(u64, ClientMessage, Vec<u8>),
    Worker,
}

pub(super) fn accept(
    listener: &UnixListener,
    inputs: &Sender<HostInput>,
    look: &Arc<dyn Fn() -> ComputerInfo + Send + Sync>,
) {
    for (client, stream) in (1..).zip(listener.incoming().flatten()) {
        let (inputs, look) = (inputs.clone(), Arc::clone(look));
        spawn("client", move || {
            if let Err(err) = serve(client, &stream, &inputs, look.as_ref()) {
                tracing::info!("client {client} is gone: {err}");
            }
            inputs.send(HostInput::Left(client)).ok();
        });
    }
}

/// Reads what a client says until it is gone; another thread writes to it.
fn serve(
    client: u64,
    stream: &UnixStream,
    inputs: &Sender<HostInput>,
    look: &dyn Fn() -> ComputerInfo,
) -> io::Result<()> {
    let mut output = stream.try_clone()?;
    write_frame(&mut output, &HostMessage::Hello(Box::new(look())), &[])?;
    #[expect(
        clippy::disallowed_methods,
        reason = "a slow client misses what may be dropped, and the rest is little"
    )]
    let (sender, receiver) = unbounded::<Outgoing>();
    spawn("client-output", move || {
        while let Ok((message, bytes)) = receiver.recv() {
            if write_frame(&mut output, &message, &bytes).is_err() {
                break;
            }
        }
    });
    inputs.send(HostInput::Joined(client, sender)).ok();
    let mut input = BufReader::new(stream);
    while let Some((message, bytes)) = read_frame(&mut input)? {
        inputs.send(HostInput::Message(client, message, bytes)).ok();
    }
    Ok(())
}
