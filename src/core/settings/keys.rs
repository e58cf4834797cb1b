//! The settings as a flat list of keys: which of them differ, and how two edits are merged.
//!
//! Knows no file; what a file says around its values is [`super::file`]'s.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::Settings;

/// The names of the tables around a value, and its own.
pub(super) type KeyPath = Vec<String>;
/// Every value that is set, by its key.
pub(super) type SettingValues = BTreeMap<KeyPath, Value>;

impl Settings {
    /// Three-way merge: changes of `ours` since `base`, applied to `theirs`. Changes of different settings do not
    /// conflict, and for one setting `ours` wins.
    pub fn merge(base: &Self, ours: &Self, theirs: &Self) -> Self {
        // A folder whose name is no text cannot be compared: then nothing of ours is lost.
        let (Some(base), Some(mine), Some(mut merged)) =
            (base.leaves(), ours.leaves(), theirs.leaves())
        else {
            return ours.clone();
        };
        for key in differing(&base, &mine) {
            match mine.get(&key) {
                Some(value) => {
                    merged.insert(key, value.clone());
                }
                None => {
                    merged.remove(&key);
                }
            }
        }
        Self::from_leaves(merged).unwrap_or_else(|| ours.clone())
    }

    /// The keys whose values differ, such as `interface.theme`.
    pub fn changed_keys(&self, other: &Self) -> Vec<String> {
        let (Some(ours), Some(theirs)) = (self.leaves(), other.leaves()) else {
            return Vec::new();
        };
        let keys = differing(&ours, &theirs).into_iter();
        keys.map(|key| key.join(".")).collect()
    }

    /// These settings with the value of one key, such as `interface.theme`, or of a whole table, from others.
    #[must_use]
    pub fn with_key_of(&self, key: &str, others: &Self) -> Self {
        let (Some(mut ours), Some(theirs)) = (self.leaves(), others.leaves()) else {
            return self.clone();
        };
        let wanted: Vec<&str> = key.split('.').collect();
        let is_it = |key: &KeyPath| {
            key.iter()
                .map(String::as_str)
                .take(wanted.len())
                .eq(wanted.iter().copied())
        };
        ours.retain(|key, _| !is_it(key));
        ours.extend(theirs.into_iter().filter(|(key, _)| is_it(key)));
        Self::from_leaves(ours).unwrap_or_else(|| self.clone())
    }

    /// Values as in the file, by keys such as `interface.theme`; empty if a path in them is not UTF-8.
    pub fn values(&self) -> BTreeMap<String, Value> {
        let leaves = self.leaves().unwrap_or_default().into_iter();
        leaves.map(|(key, value)| (key.join("."), value)).collect()
    }

    /// With another value of one key, or with none; as before where the key cannot have it.
    #[must_use]
    pub fn with_value(&self, key: &str, value: Option<Value>) -> Self {
        let Some(mut leaves) = self.leaves() else {
            return self.clone();
        };
        let key: KeyPath = key.split('.').map(str::to_owned).collect();
        match value {
            Some(value) => leaves.insert(key, value),
            None => leaves.remove(&key),
        };
        Self::from_leaves(leaves).unwrap_or_else(|| self.clone())
    }

    /// `None` when a path in them is no text.
    pub(super) fn leaves(&self) -> Option<SettingValues> {
        let table = Table::try_from(self).ok()?;
        let mut leaves = SettingValues::new();
        flatten(&mut Vec::new(), table, &mut leaves);
        Some(leaves)
    }

    fn from_leaves(leaves: SettingValues) -> Option<Self> {
        let mut table = Table::new();
        for (key, value) in leaves {
            let (name, tables) = key.split_last()?;
            let mut inner = &mut table;
            for part in tables {
                let next = inner
                    .entry(part.as_str())
                    .or_insert_with(|| Value::Table(Table::new()));
                inner = next.as_table_mut()?;
            }
            inner.insert(name.clone(), value);
        }
        table.try_into().ok()
    }
}

fn flatten(before: &mut KeyPath, table: Table, leaves: &mut SettingValues) {
    for (name, value) in table {
        before.push(name);
        match value {
            Value::Table(inner) => flatten(before, inner, leaves),
            value => {
                leaves.insert(before.clone(), value);
            }
        }
        before.pop();
    }
}

/// The keys that one of them has otherwise than the other, or alone.
pub(super) fn differing(one: &SettingValues, other: &SettingValues) -> BTreeSet<KeyPath> {
    one.keys()
        .chain(other.keys())
        .filter(|key| one.get(*key) != other.get(*key))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::ThemeChoice;
    use super::*;

    #[test]
    fn a_change_in_the_file_and_one_on_the_screen_are_both_kept() {
        let base = Settings::default();
        let mut ours = base.clone();
        ours.interface.theme = ThemeChoice::Light;
        ours.runtime.libtorch = Some("/opt/torch".into());
        ours.runtime.environment.insert("MINE".into(), "1".into());
        let mut theirs = base.clone();
        theirs.interface.scale = 1.3;
        theirs.interface.theme = ThemeChoice::System;
        theirs
            .runtime
            .environment
            .insert("THEIRS".into(), "2".into());
        let merged = Settings::merge(&base, &ours, &theirs);
        assert_eq!(merged.interface.scale, 1.3);
        assert_eq!(
            merged.interface.theme,
            ThemeChoice::Light,
            "the later of two"
        );
        assert_eq!(merged.runtime.libtorch, Some("/opt/torch".into()));
        assert_eq!(merged.runtime.environment.len(), 2);
    }

    #[test]
    fn setting_removed_by_the_user_stays_removed_after_a_merge() {
        let mut base = Settings::default();
        base.memory.cap_gib = Some(20.0);
        base.runtime.environment.insert("A".into(), "1".into());
        let mut theirs = base.clone();
        theirs.output.sidecar = true;
        let merged = Settings::merge(&base, &Settings::default(), &theirs);
        assert_eq!(merged.memory.cap_gib, None);
        assert!(merged.runtime.environment.is_empty() && merged.output.sidecar);
        let changed = base.changed_keys(&merged);
        assert_eq!(
            changed,
            ["memory.cap_gib", "output.sidecar", "runtime.environment.A"]
        );
    }

    #[test]
    fn one_key_is_taken_back_to_its_default_and_no_other() {
        let mut settings = Settings::default();
        settings.memory.cap_gib = Some(20.0);
        settings.output.sidecar = true;
        settings.runtime.environment.insert("A".into(), "1".into());
        let defaults = Settings::default();
        let reset = settings.with_key_of("memory.cap_gib", &defaults);
        assert_eq!(reset.changed_keys(&settings), ["memory.cap_gib"]);
        let reset = settings.with_key_of("runtime.environment", &defaults);
        assert_eq!(reset.changed_keys(&settings), ["runtime.environment.A"]);
    }
}
