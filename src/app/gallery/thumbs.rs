//! The textures of small pictures that were drawn lately, in a bounded amount of memory.
//!
//! It makes none: threads do, and here they are kept until others need the room.

use std::cell::Cell;
use std::collections::HashMap;

use egui::{ColorImage, Context, TextureHandle, TextureOptions};
use safelight_core::gallery::ThumbKey;

/// What all textures may take. What is on the screen stays, whatever it takes.
const MAX_BYTES: usize = 192 << 20;

enum Held {
    Texture(TextureHandle),
    /// Why there is none, a sentence.
    Broken(String),
}

struct Thumb {
    held: Held,
    bytes: usize,
    /// As large as was asked for, in pixels.
    side: u32,
    /// In which round it was drawn last.
    drawn: Cell<u64>,
}

/// What there is to draw.
pub enum Shown<'a> {
    Texture(&'a TextureHandle),
    Broken(&'a str),
    NotYet,
}

/// The textures.
pub struct Thumbs {
    thumbs: HashMap<ThumbKey, Thumb>,
    bytes: usize,
    max_bytes: usize,
    round: Cell<u64>,
}

impl Default for Thumbs {
    fn default() -> Self {
        Self {
            thumbs: HashMap::new(),
            bytes: 0,
            max_bytes: MAX_BYTES,
            round: Cell::new(0),
        }
    }
}

impl Thumbs {
    /// A new frame begins.
    pub fn begin_round(&self) {
        self.round.set(self.round.get() + 1);
    }

    /// Whether there is one of this size.
    pub fn contains(&self, key: ThumbKey, side: u32) -> bool {
        let thumb = self.thumbs.get(&key);
        thumb.is_some_and(|thumb| thumb.side >= side)
    }

    pub fn get(&self, key: ThumbKey) -> Shown<'_> {
        match self.thumbs.get(&key) {
            Some(thumb) => {
                thumb.drawn.set(self.round.get());
                match &thumb.held {
                    Held::Texture(texture) => Shown::Texture(texture),
                    Held::Broken(why) => Shown::Broken(why),
                }
            }
            None => Shown::NotYet,
        }
    }

    pub fn keep(
        &mut self,
        ctx: &Context,
        key: ThumbKey,
        side: u32,
        made: Result<ColorImage, String>,
    ) {
        if self.contains(key, side) {
            // A smaller one that took longer.
            return;
        }
        let (held, bytes) = match made {
            Ok(image) => {
                let bytes = image.pixels.len() * 4;
                let texture = ctx.load_texture("thumbnail", image, TextureOptions::LINEAR);
                (Held::Texture(texture), bytes)
            }
            Err(why) => (Held::Broken(why), 0),
        };
        let thumb = Thumb {
            held,
            bytes,
            side,
            drawn: self.round.clone(),
        };
        self.bytes += bytes;
        if let Some(old) = self.thumbs.insert(key, thumb) {
            self.bytes -= old.bytes;
        }
        if self.bytes > self.max_bytes {
            self.make_room();
        }
    }

    /// Drops those that were not drawn for the longest time, to nine tenths.
    fn make_room(&mut self) {
        let mut old: Vec<(u64, ThumbKey)> = self
            .thumbs
            .iter()
            .filter(|(_, thumb)| thumb.drawn < self.round)
            .map(|(key, thumb)| (thumb.drawn.get(), *key))
            .collect();
        old.sort_unstable();
        for (_, key) in old {
            if self.bytes <= self.max_bytes / 10 * 9 {
                break;
            }
            if let Some(thumb) = self.thumbs.remove(&key) {
                self.bytes -= thumb.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use safelight_core::gallery::Stamp;

    use super::*;

    #[test]
    fn textures_that_were_not_drawn_lately_go_first() {
        let ctx = Context::default();
        let key = |bytes: u64| {
            let stamp = Stamp {
                modified_ns: 0,
                bytes,
            };
            ThumbKey::of(Path::new("/a"), stamp)
        };
        let image = || Ok(ColorImage::filled([16, 16], egui::Color32::RED));
        let mut thumbs = Thumbs {
            max_bytes: 10 * 16 * 16 * 4,
            ..Thumbs::default()
        };
        for number in 0..10 {
            thumbs.begin_round();
            thumbs.keep(&ctx, key(number), 16, image());
        }
        thumbs.begin_round();
        assert!(matches!(thumbs.get(key(0)), Shown::Texture(_)));
        thumbs.keep(&ctx, key(10), 16, image());
        assert!(thumbs.contains(key(0), 16) && thumbs.contains(key(10), 16));
        assert!(!thumbs.contains(key(1), 16) && !thumbs.contains(key(0), 17));
        assert!(thumbs.bytes <= thumbs.max_bytes);
        thumbs.keep(&ctx, key(10), 8, image());
        assert!(thumbs.contains(key(10), 16), "a smaller one came later");
        thumbs.keep(&ctx, key(11), 16, Err("it is broken".to_owned()));
        assert!(matches!(thumbs.get(key(11)), Shown::Broken("it is broken")));
        assert!(matches!(thumbs.get(key(1)), Shown::NotYet));
    }
}
