//! Painting, taking back, softening and keeping of masks.

use super::*;
use crate::media::{RgbPixels, open_rgb};

const HARD: MaskBrush = MaskBrush {
    radius: 5.0,
    softness: 0.0,
    erases: false,
};

#[test]
fn mask_stroke_covers_its_width_and_returns_the_touched_area() {
    let mut mask = ImageMask::new(100, 40);
    let touched = mask.stroke([20.0, 20.0], [60.0, 20.0], HARD);
    for x in [20, 40, 59] {
        assert_eq!(mask.value(x, 20), 255, "at {x}");
        assert_eq!(mask.value(x, 16), 255, "at {x}");
        assert_eq!(mask.value(x, 27), 0, "at {x}");
    }
    assert_eq!((mask.value(10, 20), mask.value(70, 20)), (0, 0));
    assert!(
        touched.left <= 15 && touched.right >= 65 && touched.bottom <= 28,
        "{touched:?}"
    );
}

#[test]
fn a_stroke_in_any_direction_covers_each_pixel_by_its_distance() {
    let ends = [
        [[30.0, 30.0], [30.0, 30.0]],
        [[12.5, 50.0], [70.25, 20.5]],
        [[60.0, 10.0], [20.0, 11.0]],
        [[40.0, -20.0], [41.5, 90.0]],
        [[-30.0, -30.0], [-9.0, 5.0]],
    ];
    for ([from, to], softness) in ends.into_iter().zip([0.3, 0.0, 1.0, 0.6, 0.5]) {
        let brush = MaskBrush {
            radius: 14.3,
            softness,
            erases: false,
        };
        let mut mask = ImageMask::new(80, 60);
        mask.stroke(from, to, brush);
        let (across, down) = (to[0] - from[0], to[1] - from[1]);
        let length = across.hypot(down).max(1e-6);
        for (x, y) in (0..80).flat_map(|x| (0..60).map(move |y| (x, y))) {
            let point = [x as f32 + 0.5 - from[0], y as f32 + 0.5 - from[1]];
            let along = (point[0] * across + point[1] * down) / length;
            let part = along.clamp(0.0, length) / length;
            let away = (point[0] - part * across).hypot(point[1] - part * down);
            let expected = (brush.coverage(away) * 255.0).round() as u8;
            let found = mask.value(x, y);
            assert!(
                found.abs_diff(expected) <= 1,
                "{found} {expected} at {x}, {y}"
            );
        }
    }
}

#[test]
fn a_soft_brush_fades_and_does_not_grow_darker_over_itself() {
    let soft = MaskBrush {
        radius: 20.0,
        softness: 1.0,
        ..HARD
    };
    let mut mask = ImageMask::new(60, 60);
    mask.stroke([30.0, 30.0], [30.0, 30.0], soft);
    let line: Vec<u8> = (30..52).map(|x| mask.value(x, 30)).collect();
    assert!(line.is_sorted_by(|a, b| a >= b), "{line:?}");
    assert!(
        line[0] > 250 && line[10] > 80 && line[10] < 180 && line[21] == 0,
        "{line:?}"
    );
    let once = mask.values().to_vec();
    mask.stroke([30.0, 30.0], [30.0, 30.0], soft);
    assert_eq!(mask.values(), once);
}

#[test]
fn a_mask_is_seen_in_means_of_squares_up_to_its_odd_edges() {
    let mut mask = ImageMask::new(5, 3);
    mask.fill(255);
    let eraser = MaskBrush {
        radius: 0.6,
        softness: 0.0,
        erases: true,
    };
    mask.stroke([0.5, 0.5], [0.5, 0.5], eraser);
    let means = mask.means(mask.whole(), 1);
    assert_eq!(means.len(), 3 * 2);
    assert!(means[0] < 255 && means[1..] == [255; 5], "{means:?}");
    assert_eq!(mask.means(mask.whole(), 0), mask.values());
}

#[test]
fn eraser_stroke_clears_painted_mask_pixels() {
    let mut mask = ImageMask::new(50, 50);
    mask.fill(255);
    let eraser = MaskBrush {
        erases: true,
        ..HARD
    };
    mask.stroke([25.0, 25.0], [25.0, 25.0], eraser);
    assert_eq!((mask.value(25, 25), mask.value(5, 5)), (0, 255));
}

#[test]
fn strokes_beyond_the_edge_and_of_no_sound_size_are_harmless() {
    let mut mask = ImageMask::new(30, 20);
    for (from, to) in [
        ([-500.0, -500.0], [-400.0, 900.0]),
        ([f32::NAN, 0.0], [1.0, 1.0]),
        ([1e30, 1e30], [2e30, 1e30]),
    ] {
        let touched = mask.stroke(from, to, HARD);
        assert!(touched.is_empty() || touched.right <= 30, "{touched:?}");
    }
    assert!(mask.values().iter().all(|value| *value == 0));
    mask.stroke([0.0, 0.0], [29.0, 19.0], HARD);
    assert_eq!((mask.value(0, 0), mask.value(29, 19)), (255, 255));
}

#[test]
fn every_step_is_taken_back_and_done_again() {
    let mut mask = ImageMask::new(600, 300);
    let mut seen = vec![mask.values().to_vec()];
    mask.begin_step();
    mask.stroke([10.0, 10.0], [500.0, 200.0], HARD);
    mask.stroke([500.0, 200.0], [590.0, 290.0], HARD);
    seen.push(mask.values().to_vec());
    mask.invert();
    seen.push(mask.values().to_vec());
    mask.fill(255);
    seen.push(mask.values().to_vec());
    for before in seen.iter().rev().skip(1) {
        assert!(!mask.undo().is_empty());
        assert_eq!(mask.values(), before);
    }
    assert!(!mask.can_undo() && mask.undo().is_empty());
    for after in &seen[1..] {
        assert!(!mask.redo().is_empty());
        assert_eq!(mask.values(), after);
    }
    assert!(!mask.can_redo());
    // What is painted after an undo ends the other future.
    mask.undo();
    mask.begin_step();
    mask.stroke([5.0, 5.0], [5.0, 5.0], HARD);
    assert!(!mask.can_redo());
}

#[test]
fn a_softened_edge_fades_to_both_sides_and_keeps_far_places() {
    let values: Vec<u8> = (0..100 * 20)
        .map(|at| if at % 100 < 50 { 255 } else { 0 })
        .collect();
    let soft = softened(100, 20, &values, 12);
    let row = &soft[1000..1100];
    assert!(row.is_sorted_by(|a, b| a >= b), "{row:?}");
    assert_eq!((row[30], row[70]), (255, 0));
    assert!(
        row[44] < 255 && row[55] > 0 && row[49].abs_diff(128) < 20,
        "{row:?}"
    );
    assert_eq!(softened(100, 20, &values, 0), values);
}

#[test]
fn a_mask_comes_back_from_its_file_and_from_images_of_other_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mask.png");
    let mut mask = ImageMask::new(64, 48);
    let soft = MaskBrush {
        softness: 0.7,
        ..HARD
    };
    mask.stroke([20.0, 20.0], [40.0, 30.0], soft);
    write_mask(&path, 64, 48, mask.values()).unwrap();
    assert_eq!(open_mask(&path, 64, 48).unwrap().values(), mask.values());
    let image = open_rgb(&path).unwrap();
    assert_eq!((image.width, image.height), (64, 48));

    let half = RgbPixels::from_fn(8, 8, |x, _| if x < 4 { [255; 3] } else { [0; 3] }).unwrap();
    crate::media::write_png(&path, &half).unwrap();
    let stretched = open_mask(&path, 64, 48).unwrap();
    assert_eq!((stretched.value(5, 10), stretched.value(60, 10)), (255, 0));
}

#[test]
fn an_outline_covers_what_it_surrounds_with_smooth_edges_and_erases_it_too() {
    let mut mask = ImageMask::new(60, 40);
    let rectangle = [[10.5, 5.0], [30.0, 5.0], [30.0, 20.0], [10.5, 20.0]];
    mask.begin_step();
    let touched = mask.fill_polygon(&rectangle, false);
    assert!(touched.right <= 33 && touched.bottom <= 23, "{touched:?}");
    let row: Vec<u8> = (8..33).map(|x| mask.value(x, 10)).collect();
    assert_eq!(row[..4], [0, 0, 128, 255]);
    assert_eq!(row[20..], [255, 255, 0, 0, 0]);
    assert_eq!((mask.value(20, 4), mask.value(20, 20)), (0, 0));
    // Two loops in one direction: also the part in both is covered.
    let crossing = [
        [2.0, 2.0],
        [58.0, 2.0],
        [58.0, 38.0],
        [2.0, 38.0],
        [2.0, 2.0],
    ];
    let crossing = [crossing, crossing].concat();
    mask.begin_step();
    mask.fill_polygon(&crossing, true);
    assert!(mask.values().iter().all(|value| *value == 0));
    mask.undo();
    assert_eq!(mask.value(20, 10), 255);
    // Places far beyond the edges and numbers that are none do no harm.
    for x in [f32::NAN, 1e30, -500.0] {
        mask.fill_polygon(&[[x, x], [70.0, x], [20.0, 900.0]], false);
    }
    assert!(mask.fill_polygon(&[], false).is_empty());
}

#[test]
fn a_grown_mask_reaches_as_far_to_all_sides_and_shrinking_takes_that_back() {
    for radius in [1, 2, 3, 7, 20, 60] {
        let mut mask = ImageMask::new(201, 161);
        mask.fill_polygon(
            &[[100.0, 80.0], [101.0, 80.0], [101.0, 81.0], [100.0, 81.0]],
            false,
        );
        mask.replace(&mask.filtered(MaskFilter::Grow(radius)));
        for (x, y) in (0..201_u32).flat_map(|x| (0..161_u32).map(move |y| (x, y))) {
            let (dx, dy) = (x.abs_diff(100) as f32, y.abs_diff(80) as f32);
            let (away, most) = (dx.hypot(dy), radius as f32);
            let value = mask.value(x, y);
            if dx.max(dy) > most || away > 1.5 * most {
                assert_eq!(value, 0, "{x}, {y} by {radius}");
            } else if away <= 0.92 * most - 1.0 || dx.min(dy) == 0.0 {
                assert_eq!(value, 255, "{x}, {y} by {radius}");
            }
        }
        mask.replace(&mask.filtered(MaskFilter::Shrink(radius)));
        let painted = mask.values().iter().filter(|value| **value > 0).count();
        assert_eq!((painted, mask.value(100, 80)), (1, 255), "by {radius}");
    }
    // The border of the image is no edge of the mask.
    let mut mask = ImageMask::new(30, 3);
    mask.fill(255);
    assert_eq!(mask.filtered(MaskFilter::Shrink(5)), mask.values());
    assert_eq!(ImageMask::new(1, 1).filtered(MaskFilter::Grow(3)), [0]);
}
