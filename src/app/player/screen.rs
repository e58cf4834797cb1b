//! A texture and what is seen in it.
//!
//! To make a large picture ready takes longer than a frame of the window, so a thread does it: what was there stays a
//! moment longer. One thing at a time is made ready, and the newest wish is next, so nothing older ever comes behind
//! something newer.

use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, TryRecvError, bounded};
use egui::{ColorImage, Context, TextureHandle, TextureOptions, Vec2, vec2};
use safelight_core::media::Picture;

use crate::app::player::sight::Sight;

/// A texture and what is in it.
#[derive(Default)]
pub struct Screen {
    texture: Option<TextureHandle>,
    shown: Option<Sight>,
    next: Option<Next>,
}

/// What is made ready to be shown.
struct Next {
    sight: Sight,
    image: NextImage,
}

enum NextImage {
    Ready(ColorImage),
    Coming(Receiver<ColorImage>),
}

impl Screen {
    /// Puts a picture on the screen; one that is small at once.
    pub fn show_picture(&mut self, ctx: &Context, picture: &Arc<Picture>) {
        self.show(ctx, Sight::Picture(Arc::clone(picture)));
    }

    /// Puts this on the screen when it is ready. It is to be called for each frame; the window is woken for it.
    pub fn show(&mut self, ctx: &Context, sight: Sight) {
        show_together(ctx, &mut [(self, sight)]);
    }

    /// What is on its way belongs to something that is not looked at any more.
    pub fn stop(&mut self) {
        self.next = None;
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The size in pixels of what it shows.
    pub fn size(&self) -> Option<Vec2> {
        let [width, height] = self.shown.as_ref()?.size();
        Some(vec2(width as f32, height as f32))
    }

    /// The texture, and the size in pixels of what it shows.
    pub fn texture(&self) -> Option<(&TextureHandle, [u32; 2])> {
        Some((self.texture.as_ref()?, self.shown.as_ref()?.size()))
    }

    /// Begins to make this ready, unless it is there or something else is made ready.
    fn begin(&mut self, ctx: &Context, sight: &Sight) {
        if self.next.is_some() || self.shown.as_ref() == Some(sight) {
            return;
        }
        let image = if sight.is_small() {
            NextImage::Ready(sight.image())
        } else {
            NextImage::Coming(made_aside(ctx, sight))
        };
        self.next = Some(Next {
            sight: sight.clone(),
            image,
        });
    }

    /// Whether something is made ready that is not yet there.
    fn is_busy(&mut self) -> bool {
        let Some(next) = &mut self.next else {
            return false;
        };
        if let NextImage::Coming(coming) = &next.image {
            match coming.try_recv() {
                Ok(image) => next.image = NextImage::Ready(image),
                Err(TryRecvError::Empty) => return true,
                // Its thread could not begin: the next frame tries again.
                Err(TryRecvError::Disconnected) => self.next = None,
            }
        }
        false
    }

    /// Shows what is ready.
    fn turn(&mut self, ctx: &Context) {
        let Some(Next {
            sight,
            image: NextImage::Ready(image),
        }) = self.next.take()
        else {
            return;
        };
        match &mut self.texture {
            Some(texture) => texture.set(image, TextureOptions::LINEAR),
            None => self.texture = Some(ctx.load_texture("screen", image, TextureOptions::LINEAR)),
        }
        self.shown = Some(sight);
    }
}

/// Puts each on its screen, all in the same moment: when the last one is ready.
pub(super) fn show_together(ctx: &Context, wanted: &mut [(&mut Screen, Sight)]) {
    turn_together(ctx, wanted);
    for (screen, sight) in wanted.iter_mut() {
        screen.begin(ctx, sight);
    }
    turn_together(ctx, wanted);
}

fn turn_together(ctx: &Context, wanted: &mut [(&mut Screen, Sight)]) {
    let mut is_waiting = false;
    for (screen, _) in wanted.iter_mut() {
        is_waiting |= screen.is_busy();
    }
    if !is_waiting {
        for (screen, _) in wanted {
            screen.turn(ctx);
        }
    }
}

/// The image, made on a thread of its own that wakes the window.
fn made_aside(ctx: &Context, sight: &Sight) -> Receiver<ColorImage> {
    let (sender, receiver) = bounded(1);
    let (ctx, sight) = (ctx.clone(), sight.clone());
    let spawned = thread::Builder::new()
        .name("pictures".to_owned())
        .spawn(move || {
            // An error means that nobody looks at it any more.
            if sender.send(sight.image()).is_ok() {
                ctx.request_repaint();
            }
        });
    if let Err(err) = spawned {
        tracing::error!("the thread pictures could not start: {err}");
    }
    receiver
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Too large to be shown at once.
    fn large(width: u32) -> Arc<Picture> {
        Arc::new(Picture::new(width, 1024, vec![9; width as usize * 3072]).unwrap())
    }

    fn small(width: u32) -> Arc<Picture> {
        Arc::new(Picture::new(width, 8, vec![9; width as usize * 24]).unwrap())
    }

    fn width(screen: &Screen) -> Option<u32> {
        screen.texture().map(|(_, [width, _])| width)
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it never came");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_small_picture_is_there_at_once_and_a_large_one_a_moment_later() {
        let (ctx, mut screen) = (Context::default(), Screen::default());
        screen.show_picture(&ctx, &small(8));
        assert_eq!(width(&screen), Some(8));
        let picture = large(1024);
        screen.begin(&ctx, &Sight::Picture(Arc::clone(&picture)));
        let image = screen.next.as_ref().map(|next| &next.image);
        assert!(matches!(image, Some(NextImage::Coming(_))), "aside");
        assert_eq!(width(&screen), Some(8), "what was there stays");
        until(|| {
            screen.show_picture(&ctx, &picture);
            width(&screen) == Some(1024)
        });
    }

    #[test]
    fn nothing_older_comes_behind_something_newer_and_the_last_one_stays() {
        let (ctx, mut screen) = (Context::default(), Screen::default());
        let mut seen = Vec::new();
        let mut look = |screen: &Screen| seen.extend(width(screen));
        for index in 0..20 {
            screen.show_picture(&ctx, &large(900 + index));
            look(&screen);
            thread::sleep(Duration::from_millis(1));
        }
        let last = small(2000);
        until(|| {
            screen.show_picture(&ctx, &last);
            look(&screen);
            width(&screen) == Some(2000)
        });
        assert!(seen.is_sorted(), "{seen:?}");
        thread::sleep(Duration::from_millis(20));
        screen.show_picture(&ctx, &last);
        assert_eq!(width(&screen), Some(2000));
    }

    #[test]
    fn what_is_not_looked_at_any_more_never_comes() {
        let (ctx, mut screen) = (Context::default(), Screen::default());
        screen.show_picture(&ctx, &large(1024));
        screen.stop();
        let other = large(1000);
        until(|| {
            screen.show_picture(&ctx, &other);
            assert_ne!(width(&screen), Some(1024));
            width(&screen) == Some(1000)
        });
    }

    #[test]
    fn two_change_in_the_same_moment() {
        let (ctx, mut a, mut b) = (Context::default(), Screen::default(), Screen::default());
        for index in 0..4 {
            let sights = [small(100 + index), large(1000 + index)].map(Sight::Picture);
            until(|| {
                let [first, second] = sights.clone();
                show_together(&ctx, &mut [(&mut a, first), (&mut b, second)]);
                let widths = (width(&a), width(&b));
                assert_eq!(widths.0.map(|it| it + 900), widths.1);
                widths.0 == Some(100 + index)
            });
        }
    }
}
