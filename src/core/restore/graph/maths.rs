//! Expressions of maths nodes: Python's operators and a few functions over the node's inputs.

/// Letters of an expression.
const MAX_LETTERS: usize = 500;
/// Brackets and signs within each other.
const MAX_DEPTH: u32 = 40;

/// Result of an expression; `None` for what is not understood, and for what is not finite. `variable` gives the value of a
/// name.
pub(super) fn compute(text: &str, variable: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let mut expression = MathsExpression {
        rest: Some(text).filter(|text| text.len() <= MAX_LETTERS)?,
        variable,
        depth: 0,
    };
    let result = expression.sum()?;
    (expression.rest.trim().is_empty() && result.is_finite()).then_some(result)
}

struct MathsExpression<'t, F> {
    rest: &'t str,
    variable: F,
    depth: u32,
}

impl<F: Fn(&str) -> Option<f64>> MathsExpression<'_, F> {
    /// Takes the first of these signs with which the rest begins.
    fn take(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        self.rest = self.rest.trim_start();
        let mut signs = signs.iter().copied();
        let sign = signs.find(|sign| self.rest.starts_with(sign))?;
        // `*` is no half of `**`.
        if sign == "*" && self.rest.starts_with("**") {
            return None;
        }
        self.rest = &self.rest[sign.len()..];
        Some(sign)
    }

    fn sum(&mut self) -> Option<f64> {
        self.depth += 1;
        let mut sum = self.product().filter(|_| self.depth < MAX_DEPTH)?;
        while let Some(sign) = self.take(&["+", "-"]) {
            let next = self.product()?;
            sum += if sign == "+" { next } else { -next };
        }
        self.depth -= 1;
        Some(sum)
    }

    fn product(&mut self) -> Option<f64> {
        let mut product = self.power()?;
        while let Some(sign) = self.take(&["//", "/", "%", "*"]) {
            let next = self.power()?;
            product = match sign {
                "//" => (product / next).floor(),
                "/" => product / next,
                "%" => product - next * (product / next).floor(),
                _ => product * next,
            };
        }
        Some(product)
    }

    fn power(&mut self) -> Option<f64> {
        if self.take(&["-"]).is_some() {
            self.depth += 1;
            let power = self.power().filter(|_| self.depth < MAX_DEPTH);
            return power.map(|it| -it);
        }
        let base = self.term()?;
        match self.take(&["**"]) {
            Some(_) => self.power().map(|power| base.powf(power)),
            None => Some(base),
        }
    }

    fn term(&mut self) -> Option<f64> {
        if self.take(&["("]).is_some() {
            let inner = self.sum()?;
            return self.take(&[")"]).map(|_| inner);
        }
        let is_of_word = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '.');
        let end = self.rest.find(|it: char| !is_of_word(it));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        if word.starts_with(|it: char| it.is_ascii_digit() || it == '.') {
            return word.parse().ok();
        }
        if self.take(&["("]).is_none() {
            return (self.variable)(word);
        }
        let mut inputs = vec![self.sum()?];
        while self.take(&[","]).is_some() {
            inputs.push(self.sum()?);
        }
        self.take(&[")"])?;
        Some(match (word, &inputs[..]) {
            ("min", _) => inputs.into_iter().fold(f64::INFINITY, f64::min),
            ("max", _) => inputs.into_iter().fold(f64::NEG_INFINITY, f64::max),
            ("int", [it]) => it.trunc(),
            ("float", [it]) => *it,
            ("round", [it]) => it.round_ties_even(),
            ("floor", [it]) => it.floor(),
            ("ceil", [it]) => it.ceil(),
            ("abs", [it]) => it.abs(),
            ("sqrt", [it]) => it.sqrt(),
            _ => return None,
        })
    }
}
