//! Values of options that only caches have.

use std::{fmt, str::FromStr};

use loadgen::kv::{Login, Mix, ValueSizes};

const VALUE_BYTES_MAX: usize = 64 << 20;

/// Sizes of values in bytes: `12`; `8..1024` for lengths from 8 to 1024; `8:70,1024:30` for these two in these proportions;
/// `lognormal:300:1.2` for a median and the deviation of the logarithm.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SizeArg {
    text: String,
    pub(super) sizes: ValueSizes,
}

impl SizeArg {
    /// Makes sizes that are all the same.
    pub(super) fn fixed(bytes: usize) -> Self {
        Self { text: bytes.to_string(), sizes: ValueSizes::Range(bytes..=bytes) }
    }
}

impl FromStr for SizeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes = sizes(text).filter(|sizes| sizes.max() <= VALUE_BYTES_MAX).ok_or_else(|| {
            format!(
                "not a size in bytes up to {VALUE_BYTES_MAX}; try 12, 8..1024, 8:70,1024:30 (sizes with their proportions) or \
                 lognormal:300:1.2 (median and sigma)"
            )
        })?;
        Ok(Self { text: text.to_owned(), sizes })
    }
}

impl fmt::Display for SizeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn sizes(text: &str) -> Option<ValueSizes> {
    const SIGMA_MAX: f64 = 5.0;
    if let Some(law) = text.strip_prefix("lognormal:") {
        let (median, sigma) = law.split_once(':')?;
        let (median, sigma): (f64, f64) = (median.parse().ok()?, sigma.parse().ok()?);
        let is_one = median >= 1.0 && median.is_finite() && (0.0..=SIGMA_MAX).contains(&sigma);
        return is_one.then_some(ValueSizes::LogNormal { median, sigma });
    }
    if text.contains(':') {
        let size = |part: &str| {
            let (size, weight) = part.split_once(':')?;
            Some((size.parse().ok()?, weight.parse().ok()?))
        };
        let sizes = text.split(',').map(size).collect::<Option<Vec<(usize, u32)>>>()?;
        return sizes.iter().any(|&(_, weight)| weight > 0).then_some(ValueSizes::Weighted(sizes));
    }
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (low <= high).then_some(ValueSizes::Range(low..=high))
}

/// Login: `PASSWORD`, or `USER:PASSWORD`. Of a password with a colon the user's name must stand before it.
#[derive(Clone, Debug)]
pub(super) struct LoginArg(pub(super) Login);

impl FromStr for LoginArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let login = match text.split_once(':') {
            Some((user, password)) if !user.is_empty() => {
                Login { user: Some(user.to_owned()), password: password.to_owned() }
            }
            Some((_, password)) => Login { user: None, password: password.to_owned() },
            None => Login { user: None, password: text.to_owned() },
        };
        if login.password.is_empty() {
            Err("no password; try PASSWORD or USER:PASSWORD".to_owned())
        } else {
            Ok(Self(login))
        }
    }
}

/// Shares of the commands: `get=9,set=1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MixArg(pub(super) Mix);

impl FromStr for MixArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SHARE_MAX: u32 = 1_000_000;
        let problem = || "not shares of get, set and del; try get=9,set=1".to_owned();
        let mut mix = Mix { get: 0, set: 0, del: 0 };
        for part in text.split(',') {
            let (name, share) = part.split_once('=').ok_or_else(problem)?;
            let share = share.parse().ok().filter(|&share| share <= SHARE_MAX).ok_or_else(problem)?;
            match name {
                "get" => mix.get = share,
                "set" => mix.set = share,
                "del" => mix.del = share,
                _ => return Err(problem()),
            }
        }
        if mix.get + mix.set + mix.del == 0 { Err(problem()) } else { Ok(Self(mix)) }
    }
}

impl fmt::Display for MixArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = [("get", self.0.get), ("set", self.0.set), ("del", self.0.del)];
        let shares = shares.into_iter().filter(|&(_, share)| share > 0);
        f.write_str(&shares.map(|(name, share)| format!("{name}={share}")).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again<T: FromStr + fmt::Display>(text: &str) -> Option<String> {
        text.parse::<T>().ok().map(|value| value.to_string())
    }

    #[test]
    fn values_are_parsed_and_shown_as_they_were_given() {
        for text in ["0", "12", "8..1024", "8:70,1024:30", "lognormal:300:1.2"] {
            assert_eq!(again::<SizeArg>(text).as_deref(), Some(text));
        }
        for text in ["get=9,set=1", "del=1", "get=1,set=2,del=3"] {
            assert_eq!(again::<MixArg>(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_login_is_a_password_with_or_without_a_name() {
        let login = |text: &str| text.parse::<LoginArg>().map(|LoginArg(login)| (login.user, login.password)).ok();
        assert_eq!(login("secret"), Some((None, "secret".to_owned())));
        assert_eq!(login("me:se:cret"), Some((Some("me".to_owned()), "se:cret".to_owned())));
        assert_eq!(login(":se:cret"), Some((None, "se:cret".to_owned())));
        assert_eq!((login(""), login("me:")), (None, None));
        let LoginArg(shown) = "me:secret".parse().expect("a login");
        assert!(!format!("{shown:?}").contains("secret"));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(
            [
                "",
                "x",
                "9..8",
                "1..",
                "99999999999",
                "8:0",
                "8:1,x",
                "lognormal:300",
                "lognormal:0:1",
                "lognormal:1e7:5"
            ]
            .iter()
            .all(|text| again::<SizeArg>(text).is_none())
        );
        assert!(["", "get", "get=0", "get=1,put=2", "get=-1"].iter().all(|text| again::<MixArg>(text).is_none()));
    }
}
