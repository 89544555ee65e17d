//! Content codings and the choice between them (RFC 9110, sections 8.4.1 and 12.5.3).

/// Representation that is not compressed, or the way in which it is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Coding {
    Identity,
    Gzip,
    Zstd,
    Brotli,
}

impl Coding {
    /// All codings; of those that a client likes alike, the last one that there is gets chosen: it is the smallest as a rule.
    pub const ALL: [Self; 4] = [Self::Identity, Self::Gzip, Self::Zstd, Self::Brotli];

    /// Name in `Content-Encoding` and `Accept-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Brotli => "br",
        }
    }

    pub(super) fn named(name: &[u8]) -> Option<Self> {
        // The old name is equivalent (section 8.4.1.3).
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

/// Weight of a coding in thousandths; 0 is "not acceptable".
type Weight = u16;

const WEIGHT_MAX: Weight = 1000;

/// Codings that a client accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AcceptedCodings {
    weights: [Weight; Coding::ALL.len()],
}

impl Default for AcceptedCodings {
    /// Accepts what a client without the field gets: it has not said that it can decompress.
    fn default() -> Self {
        let mut weights = [0; Coding::ALL.len()];
        weights[Coding::Identity as usize] = WEIGHT_MAX;
        Self { weights }
    }
}

impl AcceptedCodings {
    /// Reads all fields `Accept-Encoding` of a request. What is malformed in them is skipped: it accepts nothing.
    pub fn parse<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut said: [Option<Weight>; Coding::ALL.len()] = [None; Coding::ALL.len()];
        let mut others = None;
        for member in values.flat_map(|value| value.split(|&byte| byte == b',')) {
            let Some((name, weight)) = member_of_list(member) else { continue };
            if name == b"*" {
                others = Some(weight);
            } else if let Some(coding) = Coding::named(name) {
                said[coding as usize] = Some(weight);
            }
        }
        let mut weights = said.map(|weight| weight.or(others).unwrap_or(0));
        // Not named, it is acceptable, and less welcome than whatever is named, unless `*` excludes it.
        let unnamed = Weight::from(others != Some(0));
        weights[Coding::Identity as usize] = said[Coding::Identity as usize].unwrap_or(unnamed);
        Self { weights }
    }

    /// Returns the best of the codings that there are; `None` if none of them is acceptable.
    pub fn choose(&self, is_there: impl Fn(Coding) -> bool) -> Option<Coding> {
        let acceptable =
            Coding::ALL.into_iter().filter(|&coding| self.weights[coding as usize] > 0 && is_there(coding));
        acceptable.max_by_key(|&coding| (self.weights[coding as usize], coding))
    }
}

/// Splits `gzip;q=0.8` into its name and weight.
fn member_of_list(member: &[u8]) -> Option<(&[u8], Weight)> {
    let (name, weight) = match memchr::memchr(b';', member) {
        None => (member.trim_ascii(), WEIGHT_MAX),
        Some(at) => (member[..at].trim_ascii(), weight(member[at + 1..].trim_ascii())?),
    };
    (!name.is_empty()).then_some((name, weight))
}

/// Parses `q=` and a number from 0 to 1 with at most three digits behind the point (section 12.4.2).
fn weight(parameter: &[u8]) -> Option<Weight> {
    let [b'q' | b'Q', b'=', number @ ..] = parameter else { return None };
    let (whole, digits) = match number {
        [whole] | [whole, b'.'] => (*whole, &[][..]),
        [whole, b'.', digits @ ..] if digits.len() <= 3 => (*whole, digits),
        _ => return None,
    };
    let mut thousandths = 0;
    for place in 0..3 {
        let digit = *digits.get(place).unwrap_or(&b'0');
        thousandths = thousandths * 10 + Weight::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    match (whole, thousandths) {
        (b'0', _) => Some(thousandths),
        (b'1', 0) => Some(WEIGHT_MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chosen(field: &str, there: &[Coding]) -> Option<Coding> {
        AcceptedCodings::parse([field.as_bytes()].into_iter()).choose(|coding| there.contains(&coding))
    }

    #[test]
    fn the_coding_that_weighs_most_is_chosen() {
        use Coding::{Brotli, Gzip, Identity, Zstd};
        for (field, there, coding) in [
            ("gzip, deflate, br, zstd", &Coding::ALL[..], Some(Brotli)),
            ("br;q=1, gzip;q=0.8", &Coding::ALL, Some(Brotli)),
            ("br;q=1, gzip;q=0.8", &[Identity, Gzip], Some(Gzip)),
            ("gzip;q=1.0, br;q=0.9", &Coding::ALL, Some(Gzip)),
            ("gzip ; q=0.5 , identity;q=0.7", &Coding::ALL, Some(Identity)),
            ("GZIP;Q=0.001", &Coding::ALL, Some(Gzip)),
            ("x-gzip", &Coding::ALL, Some(Gzip)),
            ("br;q=0", &Coding::ALL, Some(Identity)),
            ("*", &Coding::ALL, Some(Brotli)),
            ("*;q=0.5, br;q=0", &Coding::ALL, Some(Zstd)),
            ("", &Coding::ALL, Some(Identity)),
            ("deflate, compress", &Coding::ALL, Some(Identity)),
            ("identity;q=0", &[Identity], None),
            ("*;q=0", &Coding::ALL, None),
            ("*;q=0, identity", &Coding::ALL, Some(Identity)),
            ("gzip, *;q=0", &[Identity, Brotli], None),
        ] {
            assert_eq!(chosen(field, there), coding, "{field}");
        }
        assert_eq!(AcceptedCodings::default().choose(|_| true), Some(Identity));
    }

    #[test]
    fn a_malformed_member_accepts_nothing() {
        for member in
            ["gzip;q=2", "gzip;q=1.001", "gzip;q=0.1234", "gzip;q=-1", "gzip;q=", "gzip;x=1", "gzip;q=0.x", ";q=1"]
        {
            assert_eq!(chosen(member, &Coding::ALL), Some(Coding::Identity), "{member}");
        }
    }

    #[test]
    fn several_fields_are_one_list() {
        let accepted = AcceptedCodings::parse([&b"gzip;q=0.5"[..], b"br;q=0.4"].into_iter());
        assert_eq!(accepted.choose(|_| true), Some(Coding::Gzip));
    }

    proptest! {
        #[test]
        fn any_field_leads_to_a_choice(field in proptest::collection::vec(any::<u8>(), 0..60)) {
            let accepted = AcceptedCodings::parse([&field[..]].into_iter());
            if let Some(coding) = accepted.choose(|coding| coding != Coding::Identity) {
                prop_assert!(accepted.weights[coding as usize] > 0);
            }
        }
    }
}
