//! `--verify`: how much of each reply is checked.

use std::{ffi::OsStr, marker::PhantomData};

use clap::{
    Arg, Command, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use loadgen::{body::FileVerify, http::HttpVerify, kv::KvVerify, sample::Sample};

use super::values::value_name;

const ALL: &str = "all";
const OFF: &str = "off";
const SAMPLE: &str = "sample=";
const SAMPLE_FORM: &str = "sample=1/N";
const SAMPLE_ABOUT: &str =
    "As all, but of one reply in N (up to 1000000000), chosen by chance from --seed; status and length of all";

/// Levels of a command: the less is checked, the lower.
pub(super) trait Level: ValueEnum + Copy + Eq + Send + Sync + 'static {
    /// The level that `off` means.
    const OFF: Self;
}

impl Level for HttpVerify {
    const OFF: Self = Self::None;
}

impl Level for KvVerify {
    const OFF: Self = Self::None;
}

impl Level for FileVerify {
    const OFF: Self = Self::None;
}

/// The value of --verify: a level, or the deepest that there is, and the share of replies that it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VerifyArg<L> {
    /// The level, unless it is the deepest.
    level: Option<L>,
    pub(super) sample: Sample,
}

impl<L: Level> VerifyArg<L> {
    /// Returns the level of the replies that are checked most closely. `deepest` is the deepest that the command can do with what
    /// it was given.
    pub(super) fn level(self, deepest: L) -> L {
        self.level.unwrap_or(deepest)
    }

    /// True if the value names this level.
    pub(super) fn is_level(self, level: L) -> bool {
        self.level == Some(level)
    }

    /// True if only a share of the replies is checked most closely.
    pub(super) fn is_sampled(self) -> bool {
        self.sample != Sample::ALL
    }

    /// Returns the value as a result records it.
    pub(super) fn name(self, deepest: L) -> String {
        if self.is_sampled() { format!("sample={}", self.sample) } else { value_name(self.level(deepest)) }
    }
}

/// Makes a parser for the levels `L` and the words `all`, `off` and `sample=1/N`. `all` is the help of that word.
pub(super) fn verify_parser<L: Level>(all: &'static str) -> VerifyParser<L> {
    VerifyParser { all, why_not_sample: None, levels: PhantomData }
}

/// Parser of --verify.
pub(super) struct VerifyParser<L> {
    all: &'static str,
    why_not_sample: Option<&'static str>,
    levels: PhantomData<fn() -> L>,
}

impl<L> Clone for VerifyParser<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for VerifyParser<L> {}

impl<L: Level> VerifyParser<L> {
    /// Makes the parser refuse `sample=1/N`, for this reason.
    pub(super) fn without_sample(self, why: &'static str) -> Self {
        Self { why_not_sample: Some(why), ..self }
    }

    fn words(self) -> impl Iterator<Item = PossibleValue> {
        let levels = L::value_variants().iter().filter_map(L::to_possible_value);
        let all = PossibleValue::new(ALL).help(self.all);
        let off = PossibleValue::new(OFF).help(format!("The same as {}", value_name(L::OFF)));
        let sample = self.why_not_sample.is_none().then(|| PossibleValue::new(SAMPLE_FORM).help(SAMPLE_ABOUT));
        levels.chain([all, off]).chain(sample)
    }

    /// Parses a text that begins like a sample.
    fn parse_sample(self, text: &str) -> Result<Sample, String> {
        let words: Vec<_> = self.words().map(|word| word.get_name().to_owned()).collect();
        let refuse = |why: &str| format!("{why} [possible values: {}]", words.join(", "));
        if let Some(why) = self.why_not_sample {
            return Err(refuse(why));
        }
        let share = text.strip_prefix(SAMPLE).unwrap_or_default();
        share.parse().map_err(|_| refuse(&format!("not {SAMPLE_FORM} with N from 1 to {}", Sample::ONE_OF_MAX)))
    }
}

impl<L: Level> TypedValueParser for VerifyParser<L> {
    type Value = VerifyArg<L>;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<VerifyArg<L>, clap::error::Error> {
        let parser = *self;
        if value.as_encoded_bytes().starts_with(b"sample") {
            let sample = move |text: &str| parser.parse_sample(text);
            return Ok(VerifyArg { level: None, sample: sample.parse_ref(command, argument, value)? });
        }
        let word = PossibleValuesParser::new(self.words()).parse_ref(command, argument, value)?;
        let level = match word.as_str() {
            ALL => None,
            OFF => Some(L::OFF),
            // The parser lets nothing else pass.
            level => L::from_str(level, false).ok(),
        };
        Ok(VerifyArg { level, sample: Sample::ALL })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(parser: VerifyParser<FileVerify>, text: &str) -> Result<VerifyArg<FileVerify>, String> {
        let command = Command::new("x").arg(Arg::new("verify").long("verify").value_parser(parser));
        let parsed = command.try_get_matches_from(["x", "--verify", text]).map_err(|error| error.to_string())?;
        Ok(*parsed.get_one("verify").expect("it was given"))
    }

    #[test]
    fn a_word_means_a_level_and_a_share_of_the_replies() {
        use FileVerify::{Length, None, Sha256, Status};
        let one_of_ten = Sample::one_of(10).expect("a share");
        for (text, level, sample, name) in [
            ("none", None, Sample::ALL, "none"),
            ("status", Status, Sample::ALL, "status"),
            ("length", Length, Sample::ALL, "length"),
            ("sha256", Sha256, Sample::ALL, "sha256"),
            ("all", Sha256, Sample::ALL, "sha256"),
            ("off", None, Sample::ALL, "none"),
            ("sample=1/10", Sha256, one_of_ten, "sample=1/10"),
            ("sample=1/1", Sha256, Sample::ALL, "sha256"),
        ] {
            let found = parse(verify_parser("the most"), text).expect(text);
            assert_eq!(
                (found.level(Sha256), found.sample, found.name(Sha256).as_str()),
                (level, sample, name),
                "{text}"
            );
            assert_eq!(found.is_level(Sha256), text == "sha256", "{text}");
        }
        assert_eq!(parse(verify_parser("the most"), "all").expect("a word").level(Length), Length);
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_known_ones() {
        let all = "[possible values: none, status, length, sha256, all, off, sample=1/N]";
        for (text, why) in [
            ("everything", "invalid value 'everything' for '--verify <verify>'"),
            ("ALL", "invalid value 'ALL'"),
            ("lenght", "a similar value exists: 'length'"),
            ("sample", "not sample=1/N with N from 1 to 1000000000"),
            ("sample=1/N", "not sample=1/N"),
            ("sample=1/0", "not sample=1/N"),
            ("sample=1/1000000001", "not sample=1/N"),
            ("sample=0.1", "not sample=1/N"),
            ("sample=1/10 ", "not sample=1/N"),
        ] {
            let refused = parse(verify_parser("the most"), text).expect_err(text);
            assert!(refused.contains(why) && refused.contains(all), "{text}: {refused}");
        }
    }

    #[test]
    fn a_command_without_samples_gives_the_reason() {
        let parser = verify_parser("the most").without_sample("it would be more expensive");
        let refused = parse(parser, "sample=1/10").expect_err("there is none");
        assert!(
            refused.contains("it would be more expensive [possible values: none, status, length, sha256, all, off]"),
            "{refused}"
        );
        assert!(parse(parser, "all").is_ok());
    }
}
