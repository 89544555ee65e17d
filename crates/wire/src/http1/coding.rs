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
    /// All codings; of those that a client likes alike, the last one that is offered gets chosen: it is the smallest as a
    /// rule.
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

    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        // The old name is equivalent (section 8.4.1.3).
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

/// Set of codings.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CodingSet(u8);

impl CodingSet {
    pub const EMPTY: Self = Self(0);

    /// Returns the set and `coding`.
    #[must_use]
    pub const fn with(self, coding: Coding) -> Self {
        Self(self.0 | 1 << coding as u8)
    }

    /// Returns the set without `coding`.
    #[must_use]
    pub const fn without(self, coding: Coding) -> Self {
        Self(self.0 & !(1 << coding as u8))
    }

    /// Returns what is in this set or in `other`.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns what is in this set and not in `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    #[inline]
    pub const fn contains(self, coding: Coding) -> bool {
        self.0 & 1 << coding as u8 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Coding> for CodingSet {
    fn from_iter<I: IntoIterator<Item = Coding>>(codings: I) -> Self {
        codings.into_iter().fold(Self::EMPTY, Self::with)
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

    /// Returns the coding that the client likes best of those that are `preferred` and the others; `None` if it accepts none
    /// of them. Of compressed ones that it likes alike, a preferred one is chosen.
    #[inline]
    pub fn choose(&self, preferred: CodingSet, others: CodingSet) -> Option<Coding> {
        let offered = preferred.plus(others);
        let is_acceptable = |coding: &Coding| offered.contains(*coding) && self.weights[*coding as usize] > 0;
        Coding::ALL.into_iter().filter(is_acceptable).max_by_key(|&coding| {
            (self.weights[coding as usize], coding != Coding::Identity, preferred.contains(coding), coding)
        })
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

    fn accepted(field: &str) -> AcceptedCodings {
        AcceptedCodings::parse([field.as_bytes()].into_iter())
    }

    fn chosen(field: &str, there: &[Coding]) -> Option<Coding> {
        accepted(field).choose(there.iter().copied().collect(), CodingSet::EMPTY)
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
        let all = Coding::ALL.into_iter().collect();
        assert_eq!(AcceptedCodings::default().choose(all, CodingSet::EMPTY), Some(Identity));
    }

    #[test]
    fn of_codings_liked_alike_a_preferred_one_is_chosen() {
        use Coding::{Brotli, Gzip, Identity, Zstd};
        let set = |codings: &[Coding]| codings.iter().copied().collect::<CodingSet>();
        for (field, preferred, others, coding) in [
            ("gzip, br, zstd", &[Identity, Gzip][..], &[Brotli, Zstd][..], Gzip),
            ("gzip;q=0.5, br", &[Identity, Gzip], &[Brotli, Zstd], Brotli),
            ("gzip, br, zstd", &[Identity], &[Gzip, Brotli, Zstd], Brotli),
            ("identity, gzip", &[Identity], &[Gzip], Gzip),
            ("gzip;q=0.001", &[Identity], &[Gzip], Gzip),
            ("", &[Brotli], &[Identity], Identity),
        ] {
            assert_eq!(accepted(field).choose(set(preferred), set(others)), Some(coding), "{field}");
        }
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
        assert_eq!(accepted.choose(Coding::ALL.into_iter().collect(), CodingSet::EMPTY), Some(Coding::Gzip));
    }

    /// Slow reading of the grammar of section 12.5.3: the members of all lists, and for each coding the last one of its name,
    /// or of `*`.
    fn weight_by_the_rfc(fields: &[String], coding: Coding) -> u32 {
        let mut by_name = None;
        let mut by_star = None;
        for member in fields.iter().flat_map(|field| field.split(',')) {
            let mut parts = member.splitn(2, ';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = match parts.next() {
                None => 1000,
                Some(parameter) => {
                    let Some(number) = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q=")) else {
                        continue;
                    };
                    let digits = number.split_once('.').map_or("", |(_, digits)| digits);
                    let is_number = number.starts_with(['0', '1'])
                        && (number.len() == 1 || number[1..].starts_with('.'))
                        && digits.len() <= 3
                        && digits.bytes().all(|digit| digit.is_ascii_digit());
                    let thousandths =
                        if is_number { (number.parse::<f64>().unwrap() * 1000.0).round() } else { 9999.0 };
                    if thousandths > 1000.0 {
                        continue;
                    }
                    thousandths as u32
                }
            };
            let name = if name == "x-gzip" { "gzip".to_owned() } else { name };
            if name == coding.name() {
                by_name = Some(weight);
            } else if name == "*" {
                by_star = Some(weight);
            }
        }
        match (by_name, by_star) {
            (Some(weight), _) => weight,
            (None, None | Some(1..)) if coding == Coding::Identity => 1,
            (None, star) => star.unwrap_or(0),
        }
    }

    fn field() -> impl Strategy<Value = String> {
        let name = "[ \t]?(gzip|br|zstd|identity|\\*|x-gzip|deflate|BR|)";
        let weight = "( ?; ?[qQ]=(0|1|0\\.[0-9]{0,3}|1\\.0{0,3}|2|1.5|0.1234|x)|;x=1|;)?[ ]?";
        let member = (name, weight).prop_map(|(name, weight)| name + &weight);
        proptest::collection::vec(member, 0..5).prop_map(|members| members.join(","))
    }

    proptest! {
        #[test]
        fn weights_are_those_of_the_rfc(fields in proptest::collection::vec(field(), 0..3)) {
            let accepted = AcceptedCodings::parse(fields.iter().map(String::as_bytes));
            for coding in Coding::ALL {
                let weight = weight_by_the_rfc(&fields, coding);
                prop_assert_eq!(u32::from(accepted.weights[coding as usize]), weight, "{}", coding.name());
            }
        }

        #[test]
        fn no_offered_coding_is_liked_better(field in field(), preferred in 0_u8..16, others in 0_u8..16) {
            let (preferred, others) = (CodingSet(preferred), CodingSet(others));
            let accepted = accepted(&field);
            let offered = |coding: &Coding| preferred.plus(others).contains(*coding);
            let best = Coding::ALL.into_iter().filter(offered).map(|coding| accepted.weights[coding as usize]).max();
            match accepted.choose(preferred, others) {
                Some(chosen) => {
                    prop_assert!(offered(&chosen));
                    prop_assert_eq!(Some(accepted.weights[chosen as usize]), best);
                }
                None => prop_assert!(best.is_none_or(|best| best == 0)),
            }
        }

        #[test]
        fn any_field_leads_to_a_choice(field in proptest::collection::vec(any::<u8>(), 0..60)) {
            let accepted = AcceptedCodings::parse([&field[..]].into_iter());
            let compressed = Coding::ALL.into_iter().collect::<CodingSet>().without(Coding::Identity);
            if let Some(coding) = accepted.choose(compressed, CodingSet::EMPTY) {
                prop_assert!(accepted.weights[coding as usize] > 0);
            }
        }
    }
}
