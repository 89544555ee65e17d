//! Hashes of passwords, as password files have them.

use argon2::{Algorithm, Argon2, Params, password_hash::phc};
use bcrypt::HashParts;
use sha_crypt::{PasswordVerifier as _, ShaCrypt};

/// Limits of what one verification may cost: each keeps a thread busy, and whoever can connect can ask for it.
const BCRYPT_COST_MAX: u32 = 16;
const SHA_CRYPT_ROUNDS_MAX: u32 = 5_000_000;
const ARGON2_KIBIBYTES_MAX: u32 = 1 << 20;
const ARGON2_PASSES_MAX: u32 = 64;
/// Longest salt of SHA-crypt, in characters; glibc ignores what is behind it.
const SHA_CRYPT_SALT_MAX: usize = 16;

/// Hash of a password, with everything that its verification needs.
#[derive(Clone)]
pub(super) struct PasswordHash {
    scheme: Scheme,
    text: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Bcrypt,
    Argon2id,
    ShaCrypt,
}

/// Reason why a hash is refused. It says nothing of the hash itself: the log is not the place for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HashError {
    #[error("the password is not hashed, or in no known way; {ADVICE}")]
    Unknown,
    #[error("{0} is too weak for passwords; {ADVICE}")]
    Weak(&'static str),
    #[error("malformed {0} hash")]
    Malformed(&'static str),
    #[error("a {0} hash that takes too long to verify")]
    TooCostly(&'static str),
}

/// Ways to make a hash that is accepted.
const ADVICE: &str = "htpasswd -B makes bcrypt hashes, openssl passwd -6 SHA-512-crypt, argon2 -id Argon2id";

/// Beginnings of hashes that are weak or not supported, and their names.
const WEAK: [(&str, &str); 7] = [
    ("{SHA}", "unsalted SHA-1"),
    ("{SSHA}", "SHA-1"),
    ("{PLAIN}", "plain text"),
    ("$apr1$", "MD5"),
    ("$1$", "MD5"),
    ("$argon2i$", "argon2i"),
    ("$argon2d$", "argon2d"),
];

impl PasswordHash {
    /// Parses and judges a hash in modular crypt format or as a PHC string.
    pub(super) fn parse(text: &str) -> Result<Self, HashError> {
        if let Some((_, name)) = WEAK.iter().find(|(start, _)| text.starts_with(start)) {
            return Err(HashError::Weak(name));
        }
        let scheme = match text.split('$').nth(1) {
            Some("2a" | "2b" | "2y") => check_bcrypt(text)?,
            Some("argon2id") => check_argon2(text)?,
            Some("5" | "6") => check_sha_crypt(text)?,
            Some(_) | None => return Err(HashError::Unknown),
        };
        Ok(Self { scheme, text: text.into() })
    }

    /// True if the hash is this password's. Takes long, and as long for a wrong one.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        match self.scheme {
            Scheme::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            Scheme::Argon2id => {
                phc::PasswordHash::new(&self.text).is_ok_and(|hash| verify_argon2(password, &hash).is_some())
            }
            Scheme::ShaCrypt => {
                mcf(&self.text).is_some_and(|hash| ShaCrypt::default().verify_password(password, &hash).is_ok())
            }
        }
    }
}

fn check_bcrypt(text: &str) -> Result<Scheme, HashError> {
    let parts: HashParts = text.parse().map_err(|_| HashError::Malformed("bcrypt"))?;
    match parts.get_cost() {
        0..=3 => Err(HashError::Malformed("bcrypt")),
        4..=BCRYPT_COST_MAX => Ok(Scheme::Bcrypt),
        _ => Err(HashError::TooCostly("bcrypt")),
    }
}

fn check_argon2(text: &str) -> Result<Scheme, HashError> {
    let malformed = HashError::Malformed("Argon2id");
    let hash = phc::PasswordHash::new(text).map_err(|_| malformed)?;
    let params = Params::try_from(&hash).map_err(|_| malformed)?;
    if hash.salt.is_none() || hash.hash.is_none() || !matches!(hash.version, None | Some(0x13)) {
        return Err(malformed);
    }
    if params.m_cost() > ARGON2_KIBIBYTES_MAX || params.t_cost() > ARGON2_PASSES_MAX {
        return Err(HashError::TooCostly("Argon2id"));
    }
    Ok(Scheme::Argon2id)
}

/// Hashes the password as `hash` was made; `None` unless it comes to the same.
fn verify_argon2(password: &[u8], hash: &phc::PasswordHash) -> Option<()> {
    let (salt, expected) = (hash.salt.as_ref()?, hash.hash.as_ref()?);
    let argon2 = Argon2::new(Algorithm::Argon2id, argon2::Version::V0x13, Params::try_from(hash).ok()?);
    let mut output = vec![0; expected.as_bytes().len()];
    argon2.hash_password_into(password, salt.as_ref(), &mut output).ok()?;
    // Its comparison takes the same time wherever the first difference is.
    (phc::Output::new(&output).ok()? == *expected).then_some(())
}

fn check_sha_crypt(text: &str) -> Result<Scheme, HashError> {
    let malformed = HashError::Malformed("SHA-crypt");
    let mut fields = text.split('$').skip(1);
    let digits = if fields.next() == Some("5") { 43 } else { 86 };
    let mut salt = fields.next().ok_or(malformed)?;
    if let Some(rounds) = salt.strip_prefix("rounds=") {
        match rounds.parse::<u32>() {
            Ok(sha_crypt::Params::ROUNDS_MIN..=SHA_CRYPT_ROUNDS_MAX) => {}
            Ok(rounds) if rounds > SHA_CRYPT_ROUNDS_MAX => return Err(HashError::TooCostly("SHA-crypt")),
            Ok(_) | Err(_) => return Err(malformed),
        }
        salt = fields.next().ok_or(malformed)?;
    }
    let hash = fields.next().ok_or(malformed)?;
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/');
    let is_sound = hash.len() == digits && hash.bytes().all(is_digit) && salt.len() <= SHA_CRYPT_SALT_MAX;
    (is_sound && fields.next().is_none() && mcf(text).is_some()).then_some(Scheme::ShaCrypt).ok_or(malformed)
}

fn mcf(text: &str) -> Option<sha_crypt::PasswordHash> {
    sha_crypt::PasswordHash::new(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by htpasswd, openssl, glibc and libargon2 (its test.c), of the word `password`.
    const GOOD: [&str; 6] = [
        "$2y$05$X5.h6sY6A.O.47ttof/0eOgsceLD8gXE2jKDSNkiG/1r6cEyZr6xW",
        "$5$saltsalt$gOjOtoMpVhru2uyjeJSEc/JaLQWOXMNmlOnj6T4AtC.",
        "$6$Az09./xx$YD4ZaxVFZRXM7OJ1DZtJCehRrg32HigNr9JnNy6mjHJnxIbc3JNvWk.26.Lhm8Xgb1XfPcip2wCC9gvc5zed0/",
        "$6$rounds=1234$roundsalt$OVyO7o8bUSY62Qwbwrl/hpcOysWZkUK6egILNNXofjwd/MtngWQKoS8d4vLU35a9OWjY3MUUytzfGpHhcgz41.",
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$5$rounds=1000$sixteencharacter$JaezpHMHc4yCVAOrEDFnNVkIuneRD4dL1WiqIA9Rw6D",
    ];

    #[test]
    fn hashes_of_other_programs_are_verified() {
        for text in GOOD {
            let hash = PasswordHash::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(hash.verify(b"password"), "{text}");
            assert!(!hash.verify(b"Password") && !hash.verify(b"") && !hash.verify(b"password\n"), "{text}");
        }
    }

    #[test]
    fn weak_costly_and_broken_hashes_are_refused() {
        use HashError::{Malformed, TooCostly, Unknown, Weak};
        let costly = |text: &str, from, to| text.replace(from, to);
        for (text, error) in [
            ("password".to_owned(), Unknown),
            (String::new(), Unknown),
            ("$7$x$y".to_owned(), Unknown),
            ("rqXexS6ZhobKA".to_owned(), Unknown),
            ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=".to_owned(), Weak("unsalted SHA-1")),
            ("$apr1$x$y".to_owned(), Weak("MD5")),
            ("$1$x$y".to_owned(), Weak("MD5")),
            ("$2y$10$short".to_owned(), Malformed("bcrypt")),
            (costly(GOOD[0], "$05$", "$17$"), TooCostly("bcrypt")),
            (costly(GOOD[0], "$05$", "$03$"), Malformed("bcrypt")),
            ("$5$salt".to_owned(), Malformed("SHA-crypt")),
            (GOOD[1].replace("$5$", "$6$"), Malformed("SHA-crypt")),
            (costly(GOOD[3], "rounds=1234", "rounds=5000001"), TooCostly("SHA-crypt")),
            (costly(GOOD[3], "rounds=1234", "rounds=1"), Malformed("SHA-crypt")),
            (costly(GOOD[4], "m=256", "m=2000000"), TooCostly("Argon2id")),
            (costly(GOOD[4], "v=19", "v=16"), Malformed("Argon2id")),
            ("$argon2id$v=19$m=1024,t=1,p=1$c29tZXNhbHQ".to_owned(), Malformed("Argon2id")),
        ] {
            assert_eq!(PasswordHash::parse(&text).err(), Some(error), "{text}");
        }
    }
}
