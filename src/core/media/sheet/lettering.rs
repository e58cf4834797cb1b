//! Letters for images, in the fonts that the window ships: lines that fit, and their pixels.
//!
//! Letters from left to right; what neither font has is drawn as an empty box.

use ab_glyph::{Font as _, FontRef, Glyph, GlyphId, PxScale, ScaleFont as _, point};

use crate::media::MediaError;

pub(super) struct TextRenderer {
    /// The first that has a letter draws it.
    fonts: Vec<FontRef<'static>>,
    px: f32,
}

impl TextRenderer {
    /// `px` is the height of letters with their ascents and descents.
    pub fn new(px: f32) -> Result<Self, MediaError> {
        let fonts = [
            epaint_default_fonts::UBUNTU_LIGHT,
            epaint_default_fonts::HACK_REGULAR,
        ];
        let fonts = fonts.into_iter().map(FontRef::try_from_slice);
        let fonts = fonts.collect::<Result<Vec<_>, _>>();
        let fonts = fonts.map_err(|err| {
            MediaError::other(format!("the font of contact sheets cannot be read ({err})"))
        })?;
        Ok(Self { fonts, px })
    }

    /// From one line to the next, in pixels.
    pub fn line(&self) -> u32 {
        (self.px * 1.2).ceil() as u32
    }

    fn of(&self, letter: char) -> (&FontRef<'static>, GlyphId) {
        let known = self.fonts.iter().find_map(|font| {
            let id = font.glyph_id(letter);
            (id.0 != 0).then_some((font, id))
        });
        // Its glyph for what it has not.
        known.unwrap_or((&self.fonts[0], GlyphId(0)))
    }

    /// The letters and where they begin.
    fn placed<'a>(
        &'a self,
        text: &'a str,
    ) -> impl Iterator<Item = (&'a FontRef<'static>, GlyphId, f32, f32)> {
        let mut x = 0.0;
        text.chars()
            .filter(|letter| !letter.is_control())
            .map(move |letter| {
                let (font, id) = self.of(letter);
                let start = x;
                x += font.as_scaled(PxScale::from(self.px)).h_advance(id);
                (font, id, start, x)
            })
    }

    pub fn width(&self, text: &str) -> u32 {
        let end = self.placed(text).last();
        end.map_or(0, |(.., end)| end.ceil() as u32)
    }

    /// Text in lines of at most `room` pixels, truncated with an ellipsis after `most` lines.
    pub fn wrapped(&self, text: &str, room: u32, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            let longer = lines.last().map(|line| format!("{line} {word}"));
            match (longer, lines.last_mut()) {
                (Some(longer), Some(last)) if self.width(&longer) <= room => *last = longer,
                _ => lines.push(word.to_owned()),
            }
            if lines.len() > most {
                break;
            }
        }
        let is_cut = lines.len() > most;
        lines.truncate(most);
        if is_cut && let Some(last) = lines.last_mut() {
            last.push('…');
        }
        for line in &mut lines {
            self.shorten(line, room);
        }
        lines
    }

    /// Cuts letters off before the end until the line fits.
    fn shorten(&self, line: &mut String, room: u32) {
        if self.width(line) <= room {
            return;
        }
        line.truncate(line.trim_end_matches('…').len());
        while line.pop().is_some() {
            line.push('…');
            if self.width(line) <= room || line.chars().count() == 1 {
                return;
            }
            line.pop();
        }
    }

    /// Tells each pixel of a line and how much of it is covered, from 0 to 1; the line's top left corner is given.
    pub fn draw(&self, text: &str, (x, y): (u32, u32), pixel: &mut dyn FnMut(u32, u32, f32)) {
        let scale = PxScale::from(self.px);
        let base = y as f32 + self.fonts[0].as_scaled(scale).ascent();
        for (font, id, start, _) in self.placed(text) {
            let glyph = Glyph {
                id,
                scale,
                position: point(x as f32 + start, base),
            };
            let Some(outline) = font.outline_glyph(glyph) else {
                continue;
            };
            let bounds = outline.px_bounds();
            outline.draw(|left, top, share| {
                let (x, y) = (bounds.min.x + left as f32, bounds.min.y + top as f32);
                if x >= 0.0 && y >= 0.0 {
                    pixel(x as u32, y as u32, share.min(1.0));
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_to_the_width_and_truncated_with_an_ellipsis() {
        let letters = TextRenderer::new(16.0).unwrap();
        let lines = letters.wrapped("a red boat on a very wide and stormy sea", 90, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].ends_with('…'), "{lines:?}");
        assert!(
            lines.iter().all(|line| letters.width(line) <= 90),
            "{lines:?}"
        );
        let word = letters.wrapped("Donaudampfschifffahrtsgesellschaft", 60, 3);
        assert_eq!(word.len(), 1);
        assert!(word[0].ends_with('…') && letters.width(&word[0]) <= 60);
        assert!(letters.wrapped("", 60, 3).is_empty());
    }
}
