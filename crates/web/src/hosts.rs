//! Virtual hosts: the sites of a server, each with its settings, and the names by which requests choose one.

use std::{collections::HashMap, fmt, str::FromStr, sync::Arc};

use clap::Args;
use wire::http1::{Request, target_authority};

use crate::{ContentArgs, Settings, SettingsError, listing::Listings, page::Pages};

/// Length of the longest name of a host, in bytes (RFC 1035, section 2.3.4).
const NAME_MAX: usize = 255;

/// Flags of one virtual host: the keys of a `[[host]]` table.
#[derive(Clone, Debug, Args)]
pub struct HostArgs {
    /// Names of the host: example.org, or *.example.org for all names below
    #[arg(long, value_name = "NAME")]
    pub names: Vec<HostName>,

    #[command(flatten)]
    pub content: ContentArgs,
}

/// Name of a virtual host in lower case, without a dot at its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostName {
    Exact(String),
    /// All names that end with this, which starts with a dot.
    Below(String),
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Below(suffix) => write!(f, "*{suffix}"),
        }
    }
}

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let (name, is_wildcard) = name.strip_prefix("*.").map_or((name.as_str(), false), |name| (name, true));
        let is_address = name.starts_with('[') && name.ends_with(']') && !is_wildcard;
        if !is_address && name.contains(':') {
            return Err("a name has no port; brackets are around an IPv6 address".to_owned());
        }
        let is_name = |name: &str| {
            let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_in_label);
            name.split('.').all(is_label)
        };
        if name.len() > NAME_MAX || !(is_address || is_name(name)) {
            return Err("not a name of a host, like example.org or *.example.org".to_owned());
        }
        Ok(if is_wildcard { Self::Below(format!(".{name}")) } else { Self::Exact(name.to_owned()) })
    }
}

fn is_in_label(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// One virtual host as it is served: a site, its settings, and what is rendered ahead from them. Never changed: a reload
/// makes another.
#[derive(Debug)]
pub struct Hosted<S> {
    pub site: S,
    pub settings: Arc<Settings>,
    pub(crate) pages: Pages,
    pub(crate) listings: Listings,
    /// First of its names; empty for the default host of the top level.
    name: Box<str>,
}

impl<S> Hosted<S> {
    /// Serves `site`, which was made with the same settings.
    pub fn new(site: S, settings: Arc<Settings>) -> Self {
        let pages = Pages::new(&settings.content.fields_for(None));
        Self { site, settings, pages, listings: Listings::default(), name: "".into() }
    }

    /// Returns the first of its names; empty for the default host of the top level.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// All virtual hosts of a server. There is at least one; the first is the default.
#[derive(Debug)]
pub struct Hosts<S> {
    /// Number of reloads before it.
    pub(crate) generation: u64,
    hosts: Vec<Arc<Hosted<S>>>,
    names: HashMap<HostName, usize>,
    /// See [`Hosts::have_rules`].
    have_rules: bool,
}

impl<S> Hosts<S> {
    /// Begins with the default host.
    pub fn new(default: Arc<Hosted<S>>) -> Self {
        let have_rules = default.settings.guard.is_some();
        Self { generation: 0, hosts: vec![default], names: HashMap::new(), have_rules }
    }

    /// Makes the sites of a server: of the top level of its configuration, unless that names no directory and there are
    /// hosts, and of the hosts. `make` is told the names of a host, and how many sites there are, which share what is
    /// limited.
    ///
    /// # Errors
    /// The first of `make` and of [`Settings::new`].
    pub fn open<E: From<SettingsError>>(
        top: &ContentArgs,
        hosts: &[HostArgs],
        mut make: impl FnMut(&[HostName], &ContentArgs, &Arc<Settings>, usize) -> Result<S, E>,
    ) -> Result<Self, E> {
        let has_default = hosts.is_empty() || top.names_directory();
        let count = hosts.len() + usize::from(has_default);
        let mut open = |names: &[HostName], content: &ContentArgs| {
            let settings = Arc::new(Settings::new(content)?);
            let name = names.first().map_or_else(String::new, ToString::to_string).into();
            Ok::<_, E>(Arc::new(Hosted { name, ..Hosted::new(make(names, content, &settings, count)?, settings) }))
        };
        let mut all =
            Self { generation: 0, hosts: Vec::with_capacity(count), names: HashMap::new(), have_rules: false };
        if has_default {
            all.hosts.push(open(&[], top)?);
        }
        for HostArgs { names, content } in hosts {
            all.names.extend(names.iter().map(|name| (name.clone(), all.hosts.len())));
            all.hosts.push(open(names, content)?);
        }
        all.have_rules = !all.names.is_empty() || all.hosts.iter().any(|host| host.settings.guard.is_some());
        Ok(all)
    }

    /// True if requests may be answered by programs.
    pub(crate) fn have_programs(&self) -> bool {
        self.hosts.iter().any(|host| host.settings.programs.is_some())
    }

    /// Returns the host for requests whose host is unknown.
    #[inline]
    pub fn default_host(&self) -> &Arc<Hosted<S>> {
        // There is at least one.
        &self.hosts[0]
    }

    /// Returns the host of this number, which [`Hosts::select`] has returned.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> &Hosted<S> {
        self.hosts.get(number).unwrap_or_else(|| self.default_host())
    }

    /// Returns all hosts, the default one first.
    pub fn all(&self) -> &[Arc<Hosted<S>>] {
        &self.hosts
    }

    /// True if a request has to be looked at before it is answered: it may be for one of several hosts, or need a user.
    #[inline]
    pub(crate) fn have_rules(&self) -> bool {
        self.have_rules
    }

    /// Returns the number of the host that a request is for. `head` starts with its request line.
    #[cold]
    pub(crate) fn select(&self, head: &[u8], request: &Request<'_>) -> usize {
        if self.names.is_empty() {
            return 0;
        }
        let host = target_authority(head).or_else(|| request.values("host").next());
        host.and_then(|host| self.find(host)).unwrap_or(0)
    }

    /// Finds a host by its exact name, else by the longest name with a `*` that it is below.
    fn find(&self, host: &[u8]) -> Option<usize> {
        let end = if host.starts_with(b"[") { memchr::memchr(b']', host)? + 1 } else { host.len() };
        let name = match memchr::memchr(b':', host) {
            Some(colon) if end == host.len() && !host.starts_with(b"[") => &host[..colon],
            _ => &host[..end],
        };
        let name =
            str::from_utf8(name.strip_suffix(b".").unwrap_or(name)).ok().filter(|name| name.len() <= NAME_MAX)?;
        let name = name.to_ascii_lowercase();
        let dots = name.match_indices('.').map(|(at, _)| HostName::Below(name[at..].to_owned()));
        let below = dots.collect::<Vec<_>>();
        [HostName::Exact(name)].iter().chain(&below).find_map(|name| self.names.get(name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&[&str]]) -> Hosts<usize> {
        let content = ContentArgs::default();
        let host = |names: &&[&str]| HostArgs {
            names: names.iter().map(|name| name.parse().unwrap()).collect(),
            content: content.clone(),
        };
        let hosts: Vec<_> = names.iter().map(host).collect();
        let top = ContentArgs { root: Some("/".into()), ..ContentArgs::default() };
        let mut made = 0..;
        Hosts::open(&top, &hosts, |_, _, _, count| {
            assert_eq!(count, names.len() + 1);
            Ok::<_, SettingsError>(made.next().unwrap_or(0))
        })
        .unwrap()
    }

    #[test]
    fn an_exact_name_goes_before_the_longest_wildcard() {
        let hosts = hosts(&[&["example.org", "www.example.org"], &["*.example.org"], &["*.a.example.org", "[::1]"]]);
        for (host, want) in [
            ("example.org", 1),
            ("EXAMPLE.org:8080", 1),
            ("example.org.", 1),
            ("example.org.:80", 1),
            ("www.example.org", 1),
            ("x.example.org", 2),
            ("x.y.example.org", 2),
            ("a.example.org", 2),
            ("x.a.example.org", 3),
            ("x.y.A.example.org:1", 3),
            ("[::1]", 3),
            ("[::1]:80", 3),
            ("[::2]:80", 0),
            ("xexample.org", 0),
            ("org", 0),
            (".example.org", 2),
            ("127.0.0.1", 0),
            ("", 0),
            (":80", 0),
            ("[", 0),
        ] {
            assert_eq!(hosts.find(host.as_bytes()).unwrap_or(0), want, "{host}");
        }
        assert_eq!(hosts.find(&[b'a'; 300]), None);
        assert_eq!(hosts.find(b"\xff.example.org"), None);
    }

    #[test]
    fn the_first_host_is_the_default_where_the_top_level_has_no_directory() {
        let host = HostArgs { names: vec!["h".parse().unwrap()], content: ContentArgs::default() };
        let make = |_: &[HostName], _: &ContentArgs, _: &Arc<Settings>, count| Ok::<usize, SettingsError>(count);
        let hosts = Hosts::open(&ContentArgs::default(), &[host], make).unwrap();
        assert_eq!((hosts.hosts.len(), hosts.find(b"h"), hosts.default_host().site), (1, Some(0), 1));
        assert_eq!(Hosts::open(&ContentArgs::default(), &[], make).unwrap().hosts.len(), 1);
    }

    #[test]
    fn names_without_a_meaning_are_refused() {
        for bad in ["", "*", "*.", "a..b", "a:80", "::1", "*.[::1]", "a b", "http://a", "a/", "*a.b", "a.*.b"] {
            assert!(bad.parse::<HostName>().is_err(), "{bad}");
        }
        assert_eq!("A.B.".parse(), Ok(HostName::Exact("a.b".to_owned())));
        assert_eq!("*.A.b".parse(), Ok(HostName::Below(".a.b".to_owned())));
    }
}
