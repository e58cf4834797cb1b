//! Area of a brush drawn from one point to another: distances, and the range of each row. Paints nothing.

/// All places near a straight line.
pub(super) struct BrushCapsule {
    from: [f32; 2],
    span: [f32; 2],
    length_squared: f32,
}

impl BrushCapsule {
    pub(super) fn new(from: [f32; 2], to: [f32; 2]) -> Self {
        let span = [to[0] - from[0], to[1] - from[1]];
        Self {
            from,
            span,
            length_squared: span[0] * span[0] + span[1] * span[1],
        }
    }

    /// Squared distance of a point from the line.
    pub(super) fn distance_squared(&self, x: f32, y: f32) -> f32 {
        let point = [x - self.from[0], y - self.from[1]];
        let along = point[0] * self.span[0] + point[1] * self.span[1];
        let part = if self.length_squared > 0.0 {
            (along / self.length_squared).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let away = [
            point[0] - part * self.span[0],
            point[1] - part * self.span[1],
        ];
        away[0] * away[0] + away[1] * away[1]
    }

    /// From where to where a row is within a distance of the line; `None` where it is not.
    pub(super) fn across(&self, y: f32, distance: f32) -> Option<(f32, f32)> {
        if distance <= 0.0 {
            return None;
        }
        let ends = [[0.0, 0.0], self.span].map(|end| {
            let away = y - self.from[1] - end[1];
            let left = distance * distance - away * away;
            (left >= 0.0).then(|| (end[0] - left.sqrt(), end[0] + left.sqrt()))
        });
        // The shape has no hollow, so all between its parts is in it.
        let parts = ends
            .into_iter()
            .chain([self.beside(y - self.from[1], distance)]);
        let (left, right) = parts
            .flatten()
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some((self.from[0] + left, self.from[0] + right))
    }

    /// Squared distance without the round ends, from the beginning of the line.
    fn beside(&self, y: f32, distance: f32) -> Option<(f32, f32)> {
        let [across, down] = self.span;
        let wide = distance * self.length_squared.sqrt();
        // Within the distance to both sides, and between the ends.
        let sides = between(down, y * across - wide, y * across + wide)?;
        let ends = between(across, -y * down, self.length_squared - y * down)?;
        let (left, right) = (sides.0.max(ends.0), sides.1.min(ends.1));
        (self.length_squared > 0.0 && left <= right).then_some((left, right))
    }
}

/// From where to where `factor` times a number is between two others.
fn between(factor: f32, low: f32, high: f32) -> Option<(f32, f32)> {
    if factor == 0.0 {
        return (low <= 0.0 && high >= 0.0).then_some((f32::NEG_INFINITY, f32::INFINITY));
    }
    let (a, b) = (low / factor, high / factor);
    Some((a.min(b), a.max(b)))
}
