//! HD, Base and Flash, whose tensors are the same: what tells them apart.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// For pictures of about a megapixel. The checkpoints of the training before it count as this, too.
    Hd,
    /// Trained at a quarter of a megapixel, for those who train on.
    Base,
    /// For few steps without guidance.
    Flash,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hd => "HD",
            Self::Base => "Base",
            Self::Flash => "Flash",
        }
    }

    /// What the first of `names` that says anything says: `Chroma1-HD-Flash`, `chroma-unlocked-v48`. HD where none does.
    pub fn of_names(names: &[&str]) -> Self {
        let mut said = names.iter().filter_map(|name| Self::said_by(name));
        said.next().unwrap_or(Self::Hd)
    }

    fn said_by(name: &str) -> Option<Self> {
        let lower = name.to_lowercase();
        let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
        // v48 was published as Base later; what was calibrated for details is a branch of it.
        let is_base = lower.contains("base")
            || (words.contains(&"v48") && !lower.contains("detail") && !lower.contains("calib"));
        if lower.contains("flash") {
            Some(Self::Flash)
        } else if is_base {
            Some(Self::Base)
        } else if words.contains(&"hd") || lower.contains("unlocked") {
            Some(Self::Hd)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_variant_and_the_folders_where_it_does_not() {
        for (names, variant) in [
            (["Chroma1-HD", ""], Variant::Hd),
            (["Chroma1-HD-fp8mixed", ""], Variant::Hd),
            (["Chroma1-Base", ""], Variant::Base),
            (["Chroma1-Flash", ""], Variant::Flash),
            (
                ["Chroma1-HD-Flash_float8_e4m3fn_scaled", ""],
                Variant::Flash,
            ),
            (["chroma-unlocked-v29.5", ""], Variant::Hd),
            (["chroma-unlocked-v46-flash", ""], Variant::Flash),
            (["chroma-unlocked-v48-Q4_0", ""], Variant::Base),
            (["chroma-unlocked-v48-detail-calibrated", ""], Variant::Hd),
            (["chroma-unlocked-v50", "Base models"], Variant::Hd),
            (["transformer", "Chroma1-Base"], Variant::Base),
            (["myFinetune_v2", "diffusion_models"], Variant::Hd),
        ] {
            assert_eq!(Variant::of_names(&names), variant, "{names:?}");
        }
    }
}
