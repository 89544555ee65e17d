//! Password files: a line `USER:HASH` for each user, as htpasswd(1) writes them.

use std::{
    collections::HashMap,
    fmt, fs,
    hash::{BuildHasher, RandomState},
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::hash::{HashError, PasswordHash};

/// Length of the longest file, in bytes.
const FILE_MAX: u64 = 16 << 20;
/// Length of the longest name of a user, in bytes.
const NAME_MAX: usize = 255;

/// Users of a password file.
pub(super) struct Passwords {
    users: HashMap<Box<[u8]>, usize>,
    hashes: Vec<PasswordHash>,
    decoys: RandomState,
}

/// Reason why there are no users.
#[derive(Debug, thiserror::Error)]
pub enum PasswordFileError {
    #[error("cannot read the password file {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {what}", path.display())]
    Invalid { path: PathBuf, line: usize, what: String },
}

/// Problem of a line, the name of the user included where that is known.
#[derive(Debug, thiserror::Error)]
enum LineProblem {
    #[error("not of the form USER:HASH")]
    Form,
    #[error("the name of the user is longer than {NAME_MAX} bytes or has control characters in it")]
    Name,
    #[error("user {0:?} is there already")]
    Repeated(String),
    #[error("user {0:?}: {1}")]
    Hash(String, HashError),
}

impl Passwords {
    /// Reads a password file.
    ///
    /// # Errors
    /// See [`PasswordFileError`].
    pub(super) fn read(path: &Path) -> Result<Self, PasswordFileError> {
        let text = read_text(path).map_err(|source| PasswordFileError::Unreadable { path: path.into(), source })?;
        Self::parse(&text).map_err(|(line, problem)| PasswordFileError::Invalid {
            path: path.into(),
            line,
            what: problem.to_string(),
        })
    }

    /// Parses the text of a password file; an error comes with the number of its line.
    fn parse(text: &str) -> Result<Self, (usize, LineProblem)> {
        let mut passwords = Self { users: HashMap::new(), hashes: Vec::new(), decoys: RandomState::new() };
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_ascii();
            if !line.is_empty() && !line.starts_with('#') {
                passwords.add(line).map_err(|problem| (number + 1, problem))?;
            }
        }
        Ok(passwords)
    }

    fn add(&mut self, line: &str) -> Result<(), LineProblem> {
        let (user, rest) = line.split_once(':').filter(|(user, _)| !user.is_empty()).ok_or(LineProblem::Form)?;
        if user.len() > NAME_MAX || user.contains(char::is_control) {
            return Err(LineProblem::Name);
        }
        // What is behind the hash is a comment, as nginx has it.
        let hash = rest.split(':').next().unwrap_or(rest);
        let hash = PasswordHash::parse(hash).map_err(|error| LineProblem::Hash(user.to_owned(), error))?;
        match self.users.insert(user.as_bytes().into(), self.hashes.len()) {
            None => self.hashes.push(hash),
            Some(_) => return Err(LineProblem::Repeated(user.to_owned())),
        }
        Ok(())
    }

    /// True if there is such a user with this password. Takes as long for a name that nobody has: it is verified against the
    /// hash of another user, always the same one for the same name, so that times tell nothing about names.
    pub(super) fn verify(&self, user: &[u8], password: &[u8]) -> bool {
        let known = self.users.get(user).copied();
        let decoy = usize::try_from(self.decoys.hash_one(user)).unwrap_or_default() % self.hashes.len().max(1);
        let Some(hash) = self.hashes.get(known.unwrap_or(decoy)) else { return false };
        hash.verify(password) & known.is_some()
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Err(io::Error::other(format!("longer than {FILE_MAX} bytes")));
    }
    Ok(text)
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").field("users", &self.users.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hash of the word `password`.
    const HASH: &str = "$5$saltsalt$gOjOtoMpVhru2uyjeJSEc/JaLQWOXMNmlOnj6T4AtC.";

    fn parse(text: &str) -> Result<Passwords, (usize, String)> {
        Passwords::parse(&text.replace("HASH", HASH)).map_err(|(line, problem)| (line, problem.to_string()))
    }

    #[test]
    fn users_are_those_of_the_lines() {
        let passwords = parse("# comment\n\nada:HASH\r\nbob x:HASH:a comment\nj\u{f6}rg:HASH\n").unwrap();
        for user in ["ada", "bob x", "j\u{f6}rg"] {
            assert!(passwords.verify(user.as_bytes(), b"password"), "{user}");
            assert!(!passwords.verify(user.as_bytes(), b"passwor"), "{user}");
        }
        for user in ["eve", "", "# comment", "ADA"] {
            assert!(!passwords.verify(user.as_bytes(), b"password"), "{user}");
        }
        assert!(!parse("").unwrap().verify(b"ada", b"password"), "a file without users lets nobody in");
    }

    #[test]
    fn a_bad_line_is_named_and_its_hash_is_not_shown() {
        for (text, line, why) in [
            ("ada:HASH\nbob", 2, "not of the form USER:HASH"),
            (":HASH", 1, "not of the form USER:HASH"),
            ("ada:HASH\n\nada:HASH", 3, "user \"ada\" is there already"),
            ("a\u{7}b:HASH", 1, "control characters"),
            ("ada:hunter2", 1, "user \"ada\": the password is not hashed"),
            ("ada:", 1, "user \"ada\": the password is not hashed"),
            ("#\nada:{SHA}5en6G6MezRroT3XKqkdPOmY", 2, "user \"ada\": unsalted SHA-1 is too weak"),
            ("ada:$apr1$hunter2", 1, "user \"ada\": MD5 is too weak"),
        ] {
            let (at, said) = parse(text).unwrap_err();
            assert!(at == line && said.contains(why) && !said.contains('\n'), "{text}: {at}: {said}");
            assert!(!said.contains("hunter2") && !said.contains("5en6"), "{said}");
        }
    }
}
