//! The families of models as subjects: one subcommand for each of the registry, all with the same arguments.

use clap::error::ErrorKind;
use clap::{ArgMatches, Args as _, Command, FromArgMatches, Subcommand};
use safelight_core::families::Family;

use crate::request::{FamilyArgs, Request};

/// What is measured of one family.
#[derive(Debug)]
pub(super) struct OfFamily {
    /// As the command line has it: `z-image`.
    subject: String,
    args: FamilyArgs,
}

impl OfFamily {
    pub(super) fn request(&self) -> Request {
        self.args.request(&self.subject)
    }
}

fn subjects() -> impl Iterator<Item = (String, Family)> {
    Family::all().map(|family| (family.id.replace('_', "-"), family))
}

impl FromArgMatches for OfFamily {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (subject, matches) = matches
            .subcommand()
            .ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        Ok(Self {
            subject: subject.to_owned(),
            args: FamilyArgs::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for OfFamily {
    fn augment_subcommands(command: Command) -> Command {
        subjects().fold(command, |command, (subject, family)| {
            let about = format!(
                "{}: a step of each transformer, decoding, reading a prompt",
                family.label
            );
            let own = FamilyArgs::augment_args(Command::new(subject));
            command.subcommand(own.about(about))
        })
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        subjects().any(|(subject, _)| subject == name)
    }
}
