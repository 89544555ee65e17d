//! Basic authentication (RFC 7617): the paths that need a user, and who is one.
//!
//! Passwords are hashed so that verifying one takes long. That is done by threads of its own, for each pair of name and
//! password once: the request waits, unread, and is read again when the verdict is known.

mod hash;
mod passwords;
mod responses;
mod verdicts;

use std::{
    collections::HashMap,
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, OnceLock},
    thread,
};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use clap::Args;
use proto::Promise;
use wire::http1::Request;

pub use self::passwords::PasswordFileError;
use self::{
    passwords::Passwords,
    verdicts::{Fingerprint, Verdicts},
};
use crate::{Content, Pattern, Preparations, workers::Workers};

/// Length of the longest credentials that are looked at, in bytes: some hashes take longer for longer passwords.
const CREDENTIALS_MAX: usize = 1024;
/// Realm where none is configured.
const REALM: &str = "restricted";
/// Share of the processors that verify passwords, so that a flood of wrong ones leaves some for everything else.
const PROCESSORS_SHARE: usize = 2;

/// Base64 with or without padding: clients send both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Flags about users.
#[derive(Clone, Debug, Default, Args)]
pub struct AuthArgs {
    /// Password file (USER:HASH on each line, as htpasswd -B writes it) of the users who may see the site, or the paths of a
    /// pattern; off lifts that for a pattern; repeatable, the last that matches counts
    #[arg(long, value_name = "[GLOB=]FILE|off")]
    pub basic_auth: Vec<AuthRule>,

    /// Name of what --basic-auth protects, which browsers show
    #[arg(long, value_name = "TEXT", default_value = REALM)]
    pub basic_auth_realm: Realm,
}

/// Rule that paths need a user of a password file, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthRule {
    /// Paths that it is for; `None` for all.
    pattern: Option<Pattern>,
    /// `None`: everybody may see them.
    file: Option<PathBuf>,
}

impl AuthRule {
    /// Returns the password file, if the rule has one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

impl FromStr for AuthRule {
    type Err = String;

    /// Parses `FILE`, `GLOB=FILE` or `GLOB=off`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (pattern, file) = match text.split_once('=') {
            Some((pattern, file)) => (Some(pattern.parse()?), file),
            None => (None, text),
        };
        match file {
            "" => Err(format!("{text:?} names no password file")),
            "off" => Ok(Self { pattern, file: None }),
            _ => Ok(Self { pattern, file: Some(file.into()) }),
        }
    }
}

/// Name of a protected area, as it stands in quotes in a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realm(Box<str>);

impl Default for Realm {
    fn default() -> Self {
        Self(REALM.into())
    }
}

impl FromStr for Realm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(odd) = text.chars().find(|&odd| !matches!(odd, ' '..='~') || matches!(odd, '"' | '\\')) {
            return Err(format!("unexpected {odd:?} in {text:?}: a realm is plain ASCII without quotes"));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Rules of one virtual host about who may see what.
#[derive(Debug)]
pub struct Guard {
    /// In their order; `None` where everybody may see the paths.
    rules: Vec<(Option<Pattern>, Option<Arc<Area>>)>,
    /// Normal paths of password files beneath the document root: they are never sent.
    hidden: Vec<Vec<u8>>,
    challenge: Box<str>,
}

/// Paths that the users of one password file may see.
pub(crate) struct Area {
    passwords: Passwords,
    verdicts: Verdicts,
    verifications: Preparations<Fingerprint>,
}

/// Name and password that a request has brought.
pub(crate) struct Credentials {
    user: Box<[u8]>,
    password: Box<[u8]>,
    fingerprint: Fingerprint,
}

/// Judgement on the credentials of a request.
pub(crate) enum Judgement {
    /// They are this user's.
    Granted(Box<[u8]>),
    Denied,
    /// They have to be verified.
    Unknown(Credentials),
}

impl Guard {
    /// Reads the password files of a host with this document root. Returns `None` where nothing is protected.
    ///
    /// # Errors
    /// See [`PasswordFileError`].
    pub(crate) fn open(args: &AuthArgs, document_root: &Path) -> Result<Option<Self>, PasswordFileError> {
        let mut areas: HashMap<&Path, Arc<Area>> = HashMap::new();
        let (mut rules, mut hidden) = (Vec::new(), Vec::new());
        let document_root = document_root.canonicalize().unwrap_or_else(|_| document_root.to_owned());
        for AuthRule { pattern, file } in &args.basic_auth {
            let area = match file.as_deref() {
                None => None,
                Some(path) => Some(match areas.get(path) {
                    Some(area) => Arc::clone(area),
                    None => {
                        let area = Arc::new(Area::new(Passwords::read(path)?));
                        // One that would be served is hidden: without knowing where it lies, nothing is.
                        let unknown = |source| PasswordFileError::Unreadable { path: path.into(), source };
                        let place = path.canonicalize().map_err(unknown)?;
                        let below = place.strip_prefix(&document_root).ok();
                        hidden.extend(below.map(|below| [b"/", below.as_os_str().as_bytes()].concat()));
                        areas.insert(path, Arc::clone(&area));
                        area
                    }
                }),
            };
            rules.push((pattern.clone(), area));
        }
        let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", args.basic_auth_realm);
        Ok((!areas.is_empty()).then_some(Self { rules, hidden, challenge: challenge.into() }))
    }

    /// Returns the value of `WWW-Authenticate` for whoever is not let in.
    pub(crate) fn challenge(&self) -> &str {
        &self.challenge
    }

    /// True if the file at this normal path is a password file.
    pub(crate) fn hides(&self, normal: &[u8]) -> bool {
        self.hidden.iter().any(|hidden| hidden == normal)
    }

    /// Returns the area that the path of a request is in, as it was sent. What matters is where it leads to; the spelling
    /// counts as well, since resources of the server's own are found by it.
    pub(crate) fn area(&self, content: &Content, path: &[u8]) -> Option<&Arc<Area>> {
        let named = || self.area_of(path);
        let Ok(normal) = content.normalise(path) else { return named() };
        let file = content.locate(path).ok().filter(|key| Content::file_of(key) != normal);
        let leads_to = || self.area_of(Content::file_of(&file?));
        self.area_of(&normal).or_else(named).or_else(leads_to)
    }

    fn area_of(&self, path: &[u8]) -> Option<&Arc<Area>> {
        let matches = |pattern: &Option<Pattern>| pattern.as_ref().is_none_or(|pattern| pattern.matches(path));
        self.rules.iter().rfind(|(pattern, _)| matches(pattern))?.1.as_ref()
    }
}

impl Area {
    fn new(passwords: Passwords) -> Self {
        Self { passwords, verdicts: Verdicts::new(), verifications: Preparations::default() }
    }

    /// Judges the credentials of a request by what is known already.
    pub(crate) fn judge(&self, request: &Request<'_>) -> Judgement {
        let Some((user, password)) = credentials(request) else { return Judgement::Denied };
        let fingerprint = self.verdicts.fingerprint(&user, &password);
        match self.verdicts.get(&fingerprint) {
            Some(true) => Judgement::Granted(user),
            Some(false) => Judgement::Denied,
            None => Judgement::Unknown(Credentials { user, password, fingerprint }),
        }
    }

    /// Has credentials verified. The promise that `defer` makes is fulfilled with nothing once there is a verdict. Returns
    /// false where too many wait for one; then `defer` has not been called.
    pub(crate) fn verify(self: &Arc<Self>, credentials: Credentials, defer: impl FnOnce() -> Promise) -> bool {
        let Credentials { user, password, fingerprint } = credentials;
        let area = Arc::clone(self);
        let verify = move || area.verdicts.insert(fingerprint, area.passwords.verify(&user, &password));
        self.verifications.prepare_on(verifiers(), fingerprint, defer, verify)
    }
}

/// Returns the threads that verify passwords.
fn verifiers() -> &'static Workers {
    static VERIFIERS: OnceLock<Workers> = OnceLock::new();
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    VERIFIERS.get_or_init(|| Workers::start((processors() / PROCESSORS_SHARE).max(1)))
}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Area").field("passwords", &self.passwords).finish_non_exhaustive()
    }
}

/// Name and password, as they were sent.
type Pair = (Box<[u8]>, Box<[u8]>);

/// Returns name and password of a request, if it has just one pair of them.
fn credentials(request: &Request<'_>) -> Option<Pair> {
    let mut values = request.values("authorization");
    let value = values.next().filter(|value| value.len() <= CREDENTIALS_MAX)?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, encoded) = value.split_at_checked(b"Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let pair = BASE64.decode(encoded.trim_ascii()).ok()?;
    // A password may have colons, a name has none.
    let colon = memchr::memchr(b':', &pair)?;
    Some((pair[..colon].into(), pair[colon + 1..].into()))
}

/// Returns the name that a request claims. Only for one that has been granted.
pub(crate) fn claimed_user(request: &Request<'_>) -> Option<Box<[u8]>> {
    credentials(request).map(|(user, _)| user)
}

#[cfg(test)]
mod tests {
    use wire::http1::{HeadLimits, HeadParser};

    use super::*;
    use crate::ContentArgs;

    fn parsed(fields: &str) -> Option<(String, String)> {
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let request = HeadParser::default().parse(head.as_bytes(), &HeadLimits::default()).unwrap().unwrap();
        let text = |bytes: Box<[u8]>| String::from_utf8(bytes.into()).unwrap();
        credentials(&request).map(|(user, password)| (text(user), text(password)))
    }

    #[test]
    fn credentials_are_one_name_and_one_password() {
        for (fields, want) in [
            ("Authorization: Basic YWRhOmI=\r\n", Some(("ada", "b"))),
            ("authorization: basic  YWRhOmI\r\n", Some(("ada", "b"))),
            ("Authorization: Basic YTpiOmM=\r\n", Some(("a", "b:c"))),
            ("Authorization: Basic Og==\r\n", Some(("", ""))),
            ("Authorization: Basic YWRh\r\n", None),
            ("Authorization: Basic !!!!\r\n", None),
            ("Authorization: Bearer YWRhOmI=\r\n", None),
            ("Authorization: Basic\r\n", None),
            ("Authorization: Basic YWRhOmI=\r\nAuthorization: Basic YWRhOmI=\r\n", None),
            ("", None),
        ] {
            assert_eq!(parsed(fields), want.map(|(user, password)| (user.into(), password.into())), "{fields}");
        }
        assert_eq!(parsed(&format!("Authorization: Basic {}\r\n", "A".repeat(CREDENTIALS_MAX))), None);
    }

    /// Guard of a host with these rules; `FILE` is a password file.
    fn guard(rules: &[&str], rewrites: &[&str]) -> (Guard, Content, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("users");
        std::fs::write(&file, "").unwrap();
        let rule = |rule: &&str| rule.replace("FILE", file.to_str().unwrap()).parse().unwrap();
        let auth = AuthArgs { basic_auth: rules.iter().map(rule).collect(), ..AuthArgs::default() };
        let rewrite = rewrites.iter().map(|rule| rule.parse().unwrap()).collect();
        let guard = Guard::open(&auth, root.path()).unwrap().unwrap();
        (guard, Content::new(&ContentArgs { rewrite, ..ContentArgs::default() }).unwrap(), root)
    }

    #[test]
    fn however_a_path_is_spelt_it_needs_a_user() {
        let (guard, content, _root) = guard(&["/private/*=FILE", "/private/open/*=off"], &["/v1/*=/private/$1"]);
        for (path, needs_user) in [
            ("/private/", true),
            ("/private/a", true),
            ("//private/a", true),
            ("/./private//a", true),
            ("/%70rivate/a", true),
            ("/open/../private/a", true),
            ("/private/open/../a", true),
            ("/private/open/%2e%2e/a", true),
            ("/private/../a", true),
            ("/private/a%zz", true),
            ("/v1/a", true),
            ("/v1/open/a", false),
            ("/private/open/a", false),
            ("/", false),
            ("/privat", false),
            ("/private", false),
            ("/a%zz", false),
        ] {
            assert_eq!(guard.area(&content, path.as_bytes()).is_some(), needs_user, "{path}");
        }
        assert!(guard.hides(b"/users") && !guard.hides(b"/users/") && !guard.hides(b"/a"));
    }

    #[test]
    fn a_rule_without_a_pattern_is_for_all_paths() {
        let (guard, content, _root) = guard(&["FILE", "/.well-known/*=off"], &[]);
        let needs_user = |path: &str| guard.area(&content, path.as_bytes()).is_some();
        assert!(needs_user("/") && needs_user("/a%zz") && needs_user("/.git/config"));
        assert!(!needs_user("/.well-known/acme-challenge/x"));
        assert!(Guard::open(&AuthArgs::default(), Path::new("/")).unwrap().is_none());
    }

    #[test]
    fn bad_rules_and_realms_are_explained() {
        assert!("".parse::<AuthRule>().is_err() && "/a=".parse::<AuthRule>().is_err());
        assert!("/a[=x".parse::<AuthRule>().unwrap_err().contains("unexpected '['"));
        for bad in ["a\"b", "a\\b", "a\r\nX: y", "\u{e9}"] {
            assert!(bad.parse::<Realm>().unwrap_err().contains("a realm is plain ASCII"), "{bad}");
        }
    }
}
