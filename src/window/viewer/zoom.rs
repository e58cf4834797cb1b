//! Zoom and pan of an image: fitted, actual size, or anything between.
//!
//! Arithmetic on rectangles; draws nothing.

use egui::{Pos2, Rect, Vec2, vec2};

/// Points on the screen for a pixel of the image.
const MIN_SCALE: f32 = 0.02;
const MAX_SCALE: f32 = 32.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ZoomLevel {
    #[default]
    Fit,
    /// So many points a pixel, the image's middle so far from the place's.
    At { scale: f32, offset: Vec2 },
}

impl ZoomLevel {
    /// One pixel of the image for each of the screen.
    pub fn own_size(pixels_per_point: f32) -> Self {
        Self::At {
            scale: 1.0 / pixels_per_point.max(0.1),
            offset: Vec2::ZERO,
        }
    }

    pub fn rect(self, area: Rect, size: Vec2) -> Rect {
        match self {
            Self::Fit => fit(area, size),
            Self::At { scale, offset } => {
                Rect::from_center_size(area.center() + offset, size * scale)
            }
        }
    }

    /// Points per pixel.
    pub fn scale(self, area: Rect, size: Vec2) -> f32 {
        self.rect(area, size).width() / size.x.max(1.0)
    }

    /// Larger by a factor, around a point that stays where it is.
    pub fn by(self, factor: f32, around: Pos2, area: Rect, size: Vec2) -> Self {
        let rect = self.rect(area, size);
        let before = self.scale(area, size);
        let scale = (before * factor).clamp(MIN_SCALE, MAX_SCALE);
        let factor = scale / before.max(f32::EPSILON);
        let center = around + (rect.center() - around) * factor;
        Self::At {
            scale,
            offset: center - area.center(),
        }
        .held(area, size)
    }

    pub fn moved(self, by: Vec2, area: Rect, size: Vec2) -> Self {
        match self {
            Self::Fit => Self::Fit,
            Self::At { scale, offset } => Self::At {
                scale,
                offset: offset + by,
            }
            .held(area, size),
        }
    }

    fn held(self, area: Rect, size: Vec2) -> Self {
        let Self::At { scale, offset } = self else {
            return self;
        };
        let free = (size * scale - area.size()).max(Vec2::ZERO) * 0.5;
        Self::At {
            scale,
            offset: offset.clamp(-free, free),
        }
    }
}

fn fit(area: Rect, size: Vec2) -> Rect {
    let aspect = size.x.max(1.0) / size.y.max(1.0);
    let width = area.width().min(area.height() * aspect).max(1.0);
    Rect::from_center_size(area.center(), vec2(width, width / aspect.max(f32::EPSILON)))
}

#[cfg(test)]
mod tests {
    use egui::pos2;

    use super::*;

    fn area() -> Rect {
        Rect::from_min_size(pos2(10.0, 20.0), vec2(800.0, 400.0))
    }

    #[test]
    fn an_image_fits_with_its_shape_kept() {
        let sizes = [
            (100.0, 400.0),
            (64.0, 64.0),
            (1920.0, 1080.0),
            (4000.0, 1.0),
        ];
        for (width, height) in sizes {
            let shown = ZoomLevel::Fit.rect(area(), vec2(width, height));
            assert!(area().expand(0.01).contains_rect(shown));
            let aspect = shown.width() / shown.height();
            assert!((aspect / (width / height) - 1.0).abs() < 1e-3, "{aspect}");
        }
    }

    #[test]
    fn the_point_under_the_pointer_stays_while_the_wheel_turns() {
        let size = vec2(1600.0, 1200.0);
        let mut zoom = ZoomLevel::own_size(1.0);
        let around = pos2(300.0, 150.0);
        let pixel_at =
            |zoom: ZoomLevel| (around - zoom.rect(area(), size).min) / zoom.scale(area(), size);
        let before = pixel_at(zoom);
        for _ in 0..5 {
            zoom = zoom.by(1.3, around, area(), size);
        }
        assert!((pixel_at(zoom) - before).length() < 0.5);
        for _ in 0..200 {
            zoom = zoom.by(2.0, around, area(), size);
        }
        assert!(zoom.scale(area(), size) <= MAX_SCALE * 1.001);
    }

    #[test]
    fn an_image_cannot_be_moved_out_of_sight() {
        let size = vec2(1600.0, 100.0);
        let zoom = ZoomLevel::own_size(1.0).moved(vec2(9000.0, 9000.0), area(), size);
        let shown = zoom.rect(area(), size);
        assert!((shown.min.x - area().min.x).abs() < 0.5);
        assert!((shown.center().y - area().center().y).abs() < 0.5);
        let found = ZoomLevel::Fit.moved(vec2(5.0, 5.0), area(), size);
        assert_eq!(found, ZoomLevel::Fit);
    }
}
