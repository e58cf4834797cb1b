//! A texture of the viewer and its content: an image, or how far two of them differ.
//!
//! A large image takes longer than a frame of the window to convert, so a thread does it and the old one stays until
//! then. One conversion runs at a time and the newest content is next, so the order is kept.

use std::sync::Arc;

use egui::{ColorImage, TextureHandle, TextureOptions, Vec2, vec2};
use safelight_core::media::resize_lanczos;

use crate::window::prelude::*;
use crate::window::state::color_image;

/// Fewer pixels are converted in less than a millisecond.
const SMALL_PIXELS: u64 = 1 << 19;
/// Larger images are scaled down for a difference.
const MAX_DIFFERENCE_PIXELS: f64 = 1_000_000.0;

#[derive(Clone, Debug)]
pub enum ViewerContent {
    Image(Arc<RgbPixels>),
    /// Absolute difference of each pixel, times `gain`.
    Difference {
        a: Arc<RgbPixels>,
        b: Arc<RgbPixels>,
        gain: u8,
    },
}

impl ViewerContent {
    /// Converting it takes less time than starting a thread.
    fn is_small(&self) -> bool {
        let pixels = |of: &RgbPixels| u64::from(of.width) * u64::from(of.height);
        let all = match self {
            Self::Image(image) => pixels(image),
            Self::Difference { a, b, .. } => pixels(a) + pixels(b),
        };
        all <= SMALL_PIXELS
    }

    /// Width and height in pixels; its image may be larger.
    fn size(&self) -> [u32; 2] {
        match self {
            Self::Image(image) => [image.width, image.height],
            Self::Difference { a, .. } => difference_size(a),
        }
    }

    fn image(&self) -> ColorImage {
        match self {
            Self::Image(image) => enlarged(image),
            Self::Difference { a, b, gain } => {
                difference(a, b, *gain).map_or_else(|| color_image(a), |far| enlarged(&far))
            }
        }
    }
}

impl PartialEq for ViewerContent {
    /// Compares the addresses of the images, not their pixels.
    fn eq(&self, other: &Self) -> bool {
        let key = |content: &Self| match content {
            Self::Image(image) => (Arc::as_ptr(image), None, 0),
            Self::Difference { a, b, gain } => (Arc::as_ptr(a), Some(Arc::as_ptr(b)), *gain),
        };
        key(self) == key(other)
    }
}

/// Enlarges small images smoothly, because a texture's filter shows their pixels as diamonds.
fn enlarged(image: &RgbPixels) -> ColorImage {
    const SMALL_SIDE: u32 = 128;
    const TARGET_SIDE: u32 = 384;
    let side = image.width.max(image.height);
    if side == 0 || side > SMALL_SIDE {
        return color_image(image);
    }
    let factor = (TARGET_SIDE / side).max(1);
    resize_lanczos(image, image.width * factor, image.height * factor)
        .map_or_else(|_| color_image(image), |large| color_image(&large))
}

/// Size of the first image, or less.
fn difference_size(a: &RgbPixels) -> [u32; 2] {
    let pixels = f64::from(a.width) * f64::from(a.height);
    let scale = (MAX_DIFFERENCE_PIXELS / pixels).sqrt().min(1.0);
    [a.width, a.height].map(|side| ((f64::from(side) * scale) as u32).max(1))
}

fn difference(a: &RgbPixels, b: &RgbPixels, gain: u8) -> Option<RgbPixels> {
    let [width, height] = difference_size(a);
    let far = |a: u8, b: u8| a.abs_diff(b).saturating_mul(gain);
    if [(a.width, a.height), (b.width, b.height)] == [(width, height); 2] {
        let rgb = a.rgb.iter().zip(&b.rgb).map(|(a, b)| far(*a, *b));
        return RgbPixels::new(width, height, rgb.collect()).ok();
    }
    let column =
        |x: u32, of: &RgbPixels| (u64::from(x) * u64::from(of.width) / u64::from(width)) as u32;
    let line =
        |y: u32, of: &RgbPixels| (u64::from(y) * u64::from(of.height) / u64::from(height)) as u32;
    RgbPixels::from_fn(width, height, |x, y| {
        let [r0, g0, b0] = a.pixel(column(x, a), line(y, a));
        let [r1, g1, b1] = b.pixel(column(x, b), line(y, b));
        [far(r0, r1), far(g0, g1), far(b0, b1)]
    })
    .ok()
}

#[derive(Default)]
pub struct ViewerTexture {
    texture: Option<TextureHandle>,
    shown: Option<ViewerContent>,
    next: Option<NextContent>,
}

struct NextContent {
    content: ViewerContent,
    /// Once it is converted.
    image: Option<ColorImage>,
    coming: BackgroundTask<ColorImage>,
}

impl ViewerTexture {
    /// Shows an image; a small one at once.
    pub fn show_image(&mut self, cx: &AppContext, image: &Arc<RgbPixels>) {
        self.show(cx, ViewerContent::Image(Arc::clone(image)));
    }

    /// Shows this when it is converted. To be called for each frame; the window is woken for it.
    pub fn show(&mut self, cx: &AppContext, content: ViewerContent) {
        show_together(cx, &mut [(self, content)]);
    }

    pub fn stop(&mut self) {
        self.next = None;
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn size(&self) -> Option<Vec2> {
        let [width, height] = self.shown.as_ref()?.size();
        Some(vec2(width as f32, height as f32))
    }

    /// The texture, and the size of its content in pixels.
    pub fn handle(&self) -> Option<(&TextureHandle, [u32; 2])> {
        Some((self.texture.as_ref()?, self.shown.as_ref()?.size()))
    }

    /// Begins to convert this, unless it is shown or another conversion runs.
    fn begin(&mut self, cx: &AppContext, content: &ViewerContent) {
        if self.next.is_some() || self.shown.as_ref() == Some(content) {
            return;
        }
        let image = content.is_small().then(|| content.image());
        let mut coming = BackgroundTask::default();
        if image.is_none() {
            let large = content.clone();
            coming = cx.background.run("images", move || large.image());
        }
        self.next = Some(NextContent {
            content: content.clone(),
            image,
            coming,
        });
    }

    fn is_busy(&mut self) -> bool {
        let Some(next) = &mut self.next else {
            return false;
        };
        next.image = next.image.take().or_else(|| next.coming.take());
        let is_missing = next.image.is_none();
        if is_missing && !next.coming.is_busy() {
            // Its thread could not begin: the next frame tries again.
            self.next = None;
        }
        is_missing && self.next.is_some()
    }

    fn turn(&mut self, ctx: &Context) {
        let Some((content, image)) = self
            .next
            .take()
            .and_then(|it| Some((it.content, it.image?)))
        else {
            return;
        };
        match &mut self.texture {
            Some(texture) => texture.set(image, TextureOptions::LINEAR),
            None => self.texture = Some(ctx.load_texture("texture", image, TextureOptions::LINEAR)),
        }
        self.shown = Some(content);
    }
}

/// Shows each on its texture, all in the same frame: when the last one is converted.
pub(super) fn show_together(cx: &AppContext, wanted: &mut [(&mut ViewerTexture, ViewerContent)]) {
    turn_together(&cx.ctx, wanted);
    for (texture, content) in wanted.iter_mut() {
        texture.begin(cx, content);
    }
    turn_together(&cx.ctx, wanted);
}

fn turn_together(ctx: &Context, wanted: &mut [(&mut ViewerTexture, ViewerContent)]) {
    if !wanted.iter_mut().any(|(texture, _)| texture.is_busy()) {
        for (texture, _) in wanted {
            texture.turn(ctx);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Too large to be shown at once.
    fn large(width: u32) -> Arc<RgbPixels> {
        Arc::new(RgbPixels::new(width, 1024, vec![9; width as usize * 3072]).unwrap())
    }

    fn small(width: u32) -> Arc<RgbPixels> {
        Arc::new(RgbPixels::new(width, 8, vec![9; width as usize * 24]).unwrap())
    }

    fn width(texture: &ViewerTexture) -> Option<u32> {
        texture.handle().map(|(_, [width, _])| width)
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it never came");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn uploads_appear_in_order_and_the_last_image_stays() {
        let (cx, mut texture) = (AppContext::alone(), ViewerTexture::default());
        let mut seen = Vec::new();
        let mut look = |texture: &ViewerTexture| seen.extend(width(texture));
        for index in 0..20 {
            texture.show_image(&cx, &large(900 + index));
            look(&texture);
            thread::sleep(Duration::from_millis(1));
        }
        let last = small(2000);
        until(|| {
            texture.show_image(&cx, &last);
            look(&texture);
            width(&texture) == Some(2000)
        });
        assert!(seen.is_sorted(), "{seen:?}");
        thread::sleep(Duration::from_millis(20));
        texture.show_image(&cx, &last);
        assert_eq!(width(&texture), Some(2000));
    }

    #[test]
    fn stopped_upload_is_never_shown() {
        let (cx, mut texture) = (AppContext::alone(), ViewerTexture::default());
        texture.show_image(&cx, &large(1024));
        texture.stop();
        let other = large(1000);
        until(|| {
            texture.show_image(&cx, &other);
            assert_ne!(width(&texture), Some(1024));
            width(&texture) == Some(1000)
        });
    }

    #[test]
    fn two_change_in_the_same_moment() {
        let (mut a, mut b) = <(ViewerTexture, ViewerTexture)>::default();
        let cx = AppContext::alone();
        for index in 0..4 {
            let contents = [small(100 + index), large(1000 + index)].map(ViewerContent::Image);
            until(|| {
                let [first, second] = contents.clone();
                show_together(&cx, &mut [(&mut a, first), (&mut b, second)]);
                let widths = (width(&a), width(&b));
                assert_eq!(widths.0.map(|it| it + 900), widths.1);
                widths.0 == Some(100 + index)
            });
        }
    }

    #[test]
    fn difference_image_is_black_for_equal_pixels_and_scaled_by_its_gain() {
        let a = RgbPixels::from_fn(8, 4, |x, _| [100, x as u8, 0]).unwrap();
        let b = RgbPixels::from_fn(8, 4, |x, _| [103, x as u8, 200]).unwrap();
        let far = difference(&a, &b, 4).unwrap();
        assert_eq!(far.pixel(3, 2), [12, 0, 255]);
        assert_eq!(difference(&a, &a, 16).unwrap().pixel(7, 3), [0; 3]);
        // Another size, and far more pixels than a texture has.
        let large = RgbPixels::from_fn(3000, 2000, |_, _| [100, 0, 0]).unwrap();
        let far = difference(&large, &a, 1).unwrap();
        assert!(far.width * far.height <= 1_000_000);
        assert_eq!([far.width, far.height], difference_size(&large));
        assert_eq!(far.pixel(0, 0), [0; 3]);
    }
}
