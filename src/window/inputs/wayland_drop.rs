//! Files dropped on the window under Wayland, which winit 0.30 does not report.
//!
//! A second `wl_data_device` on the window's connection, with a separate queue and thread.
//! Accepts file lists only; the window maps positions to slots.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::thread;

use crossbeam_channel::Receiver;
use raw_window_handle::{HasDisplayHandle as _, RawDisplayHandle};
use safelight_core::uri;
use wayland_backend::client::Backend;
use wayland_client::protocol::{
    wl_data_device, wl_data_device_manager as manager, wl_data_offer, wl_registry, wl_seat,
};
use wayland_client::{
    Connection, Dispatch, Proxy as _, QueueHandle, delegate_noop, event_created_child,
};

use crate::window::background::TaskChannel;

const FILES: &str = "text/uri-list";
/// A longer list is truncated: that many files are not dropped on purpose.
const MAX_LIST_BYTES: u64 = 1 << 20;
const ROOM: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub enum FileDrag {
    Held,
    Gone,
    /// They were let go there, at this place in the window's own points.
    Dropped(Vec<PathBuf>, (f64, f64)),
}

/// `None` unless the window is on Wayland.
pub fn listen(cc: &eframe::CreationContext<'_>) -> Option<Receiver<FileDrag>> {
    let RawDisplayHandle::Wayland(display) = cc.display_handle().ok()?.as_raw() else {
        return None;
    };
    #[expect(
        unsafe_code,
        reason = "the window library gives its connection as a pointer alone"
    )]
    // SAFETY: winit keeps its `wl_display` open until the process ends.
    let backend = unsafe { Backend::from_foreign_display(display.display.as_ptr().cast()) };
    let connection = Connection::from_backend(backend);
    // A full channel means a window that does not look; nothing is lost but a highlight.
    let (postbox, receiver) = TaskChannel::new(&cc.egui_ctx, ROOM);
    let spawned = thread::Builder::new()
        .name("wayland-drops".to_owned())
        .spawn(move || {
            let mut queue = connection.new_event_queue();
            let handle = queue.handle();
            connection.display().get_registry(&handle, ());
            let mut listener = DragListener {
                connection,
                postbox,
                manager: None,
                seat: None,
                device: None,
                mimes: Vec::new(),
                offer: None,
                at: (0.0, 0.0),
            };
            while queue.blocking_dispatch(&mut listener).is_ok() {}
        });
    if let Err(err) = spawned {
        tracing::warn!("file drops will not work, a thread could not start: {err}");
        return None;
    }
    Some(receiver)
}

struct DragListener {
    connection: Connection,
    postbox: TaskChannel<FileDrag>,
    manager: Option<manager::WlDataDeviceManager>,
    seat: Option<wl_seat::WlSeat>,
    device: Option<wl_data_device::WlDataDevice>,
    mimes: Vec<String>,
    offer: Option<wl_data_offer::WlDataOffer>,
    at: (f64, f64),
}

impl DragListener {
    fn enter(&mut self, serial: u32, offer: wl_data_offer::WlDataOffer) {
        if !self.mimes.iter().any(|mime| mime == FILES) {
            offer.accept(serial, None);
            return;
        }
        offer.accept(serial, Some(FILES.to_owned()));
        if offer.version() >= 3 {
            offer.set_actions(manager::DndAction::Copy, manager::DndAction::Copy);
        }
        self.offer = Some(offer);
        self.postbox.try_post(FileDrag::Held);
    }

    fn leave(&mut self) {
        if let Some(offer) = self.offer.take() {
            offer.destroy();
            self.postbox.try_post(FileDrag::Gone);
        }
    }

    /// Requests the list and reads it on a separate thread, because the other program may be slow.
    fn take(&mut self) -> io::Result<()> {
        let Some(offer) = self.offer.take() else {
            return Ok(());
        };
        let (reader, writer) = io::pipe()?;
        offer.receive(FILES.to_owned(), writer.as_fd());
        self.connection.flush().map_err(io::Error::other)?;
        // Only the other program may hold this end now, or the list would never end.
        drop(writer);
        let (postbox, connection) = (self.postbox.clone(), self.connection.clone());
        let at = self.at;
        thread::Builder::new()
            .name("wayland-drop".to_owned())
            .spawn(move || {
                let mut text = String::new();
                let list = File::from(OwnedFd::from(reader))
                    .take(MAX_LIST_BYTES)
                    .read_to_string(&mut text);
                if let Err(err) = list {
                    tracing::warn!("a dropped list of files could not be read: {err}");
                }
                if offer.version() >= 3 {
                    offer.finish();
                }
                offer.destroy();
                connection.flush().ok();
                postbox.try_post(FileDrag::Dropped(paths_of(&text), at));
            })?;
        Ok(())
    }
}

fn paths_of(list: &str) -> Vec<PathBuf> {
    list.lines()
        .filter_map(|line| line.trim_end().strip_prefix("file://"))
        // A host name may precede the path.
        .filter_map(|rest| rest.find('/').map(|start| uri::decoded(&rest[start..])))
        .collect()
}

impl Dispatch<wl_registry::WlRegistry, ()> for DragListener {
    fn event(
        state: &mut Self,
        registry: &wl_registry::WlRegistry,
        event: wl_registry::Event,
        (): &(),
        _: &Connection,
        handle: &QueueHandle<Self>,
    ) {
        let wl_registry::Event::Global {
            name,
            interface,
            version,
        } = event
        else {
            return;
        };
        match interface.as_str() {
            "wl_data_device_manager" => {
                state.manager = Some(registry.bind(name, version.min(3), handle, ()));
            }
            "wl_seat" if state.seat.is_none() => {
                state.seat = Some(registry.bind(name, 1, handle, ()));
            }
            _ => return,
        }
        if state.device.is_none()
            && let (Some(manager), Some(seat)) = (&state.manager, &state.seat)
        {
            state.device = Some(manager.get_data_device(seat, handle, ()));
        }
    }
}

delegate_noop!(DragListener: ignore wl_seat::WlSeat);
delegate_noop!(DragListener: ignore manager::WlDataDeviceManager);

impl Dispatch<wl_data_offer::WlDataOffer, ()> for DragListener {
    fn event(
        state: &mut Self,
        _: &wl_data_offer::WlDataOffer,
        event: wl_data_offer::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        if let wl_data_offer::Event::Offer { mime_type } = event {
            state.mimes.push(mime_type);
        }
    }
}

impl Dispatch<wl_data_device::WlDataDevice, ()> for DragListener {
    fn event(
        state: &mut Self,
        _: &wl_data_device::WlDataDevice,
        event: wl_data_device::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        use wl_data_device::Event;
        match event {
            Event::DataOffer { .. } => state.mimes.clear(),
            Event::Enter {
                serial,
                id: Some(offer),
                x,
                y,
                ..
            } => {
                state.at = (x, y);
                state.enter(serial, offer);
            }
            Event::Motion { x, y, .. } => state.at = (x, y),
            Event::Leave => state.leave(),
            Event::Drop => {
                if let Err(err) = state.take() {
                    tracing::warn!("a drop could not be taken: {err}");
                    state.postbox.try_post(FileDrag::Gone);
                }
            }
            _ => {}
        }
    }

    event_created_child!(Self, wl_data_device::WlDataDevice, [
        wl_data_device::EVT_DATA_OFFER_OPCODE => (wl_data_offer::WlDataOffer, ()),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_out_of_the_list_that_file_managers_send() {
        let list = "# a comment\r\nfile:///home/a/red%20boat.png\r\nfile://host/b/%C3%A9.png\r\nhttps://example.org/c.png\r\n";
        let expected = ["/home/a/red boat.png", "/b/é.png"].map(PathBuf::from);
        assert_eq!(paths_of(list), expected);
    }

    #[test]
    fn broken_percent_signs_stay_as_they_are() {
        assert_eq!(paths_of("file:///a%2"), [PathBuf::from("/a%2")]);
        assert_eq!(paths_of("file:///a%zz%"), [PathBuf::from("/a%zz%")]);
        assert_eq!(paths_of("file://"), Vec::<PathBuf>::new());
        assert_eq!(paths_of("file:///a%é"), [PathBuf::from("/a%é")]);
    }
}
