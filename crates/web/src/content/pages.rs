//! Files that are sent in the place of others: error pages, the fallback, and the index of a directory.

use std::{fmt, str::FromStr};

use wire::http1::Status;

/// File that is sent with a status instead of the built-in page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    pub(super) status: Status,
    pub(super) file: SitePath,
}

impl FromStr for ErrorPage {
    type Err = String;

    /// Parses `STATUS=PATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not of the form STATUS=PATH, such as 404=/404.html");
        let (code, file) = text.split_once('=').ok_or_else(form)?;
        let has_code = |status: &&Status| status.code().to_string() == code;
        let status =
            Status::ALL.iter().find(has_code).copied().filter(|status| has_page(*status)).ok_or_else(|| {
                let codes =
                    Status::ALL.iter().filter(|status| has_page(**status)).map(|status| status.code().to_string());
                format!("{code:?} has no page of its own: there are {}", codes.collect::<Vec<_>>().join(", "))
            })?;
        Ok(Self { status, file: file.parse()? })
    }
}

/// True if a person may come to read the response. Of a 416, only the head says something.
fn has_page(status: Status) -> bool {
    status.code() >= 400 && status != Status::RangeNotSatisfiable
}

/// Path of a file of the site, as it is written in a URL before it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePath(Box<str>);

impl SitePath {
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for SitePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SitePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        match text.strip_prefix('/') {
            Some(rest) if rest.split('/').all(is_name) => Ok(Self(text.into())),
            _ => Err(format!("{text:?} is not the path of a file of the site, such as /404.html")),
        }
    }
}

/// Name of the file that is sent for a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexName(Box<str>);

impl IndexName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for IndexName {
    fn default() -> Self {
        Self("index.html".into())
    }
}

impl fmt::Display for IndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for IndexName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" | "." | ".." => Err(format!("{text:?} is not the name of a file, such as index.html")),
            name if name.contains(['/', '\0']) => {
                Err(format!("{text:?} is a path; an index is a name in each directory"))
            }
            name => Ok(Self(name.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_page_is_a_status_and_a_file() {
        let page: ErrorPage = "404=/errors/404.html".parse().unwrap();
        assert_eq!((page.status, page.file.as_bytes()), (Status::NotFound, &b"/errors/404.html"[..]));
        for (bad, why) in [
            ("404", "is not of the form STATUS=PATH"),
            ("200=/a", "\"200\" has no page of its own: there are 400, 401, 403, 404"),
            ("416=/a", "has no page"),
            ("499=/a", "has no page"),
            ("404=a.html", "is not the path of a file of the site"),
            ("404=/../a", "is not the path of a file of the site"),
            ("404=/a/", "is not the path of a file of the site"),
            ("404=https://example.com/", "is not the path of a file of the site"),
        ] {
            let said = bad.parse::<ErrorPage>().unwrap_err();
            assert!(said.contains(why), "{bad}: {said}");
        }
    }

    #[test]
    fn an_index_is_a_name_and_no_path() {
        assert_eq!("index.htm".parse::<IndexName>().unwrap().as_str(), "index.htm");
        for bad in ["", ".", "..", "a/b", "/index.html"] {
            assert!(bad.parse::<IndexName>().is_err(), "{bad:?}");
        }
    }
}
