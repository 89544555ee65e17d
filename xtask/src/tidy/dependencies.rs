//! Rules about which crate may depend on which.

use super::Violation;
use matrix::workspace::Package;

/// Crates that move bytes; servers get them from `service`.
const ENGINES: [&str; 9] = ["mio", "tokio", "io-uring", "tokio-uring", "compio", "smol", "monoio", "may", "glommio"];
/// It has no socket for a driver to drive: how its requests get to threads is its own affair, and tokio one of the ways.
const OWN_ENGINES: [(&str, &str); 1] = [("mq-server", "tokio")];
/// Crate → the crates of this workspace that it may depend on.
const ALLOWED: [(&str, &[&str]); 16] = [
    ("sys", &[]),
    ("proto", &[]),
    ("wire", &["proto"]),
    ("store", &["proto"]),
    // Scripts know RESP, and the server as a trait.
    ("script", &["wire"]),
    // Which file an id means: the server finds it, the load generator checks it.
    ("layouts", &["sys", "wire"]),
    ("drivers", &["proto", "sys"]),
    // A layer between session and protocol, which knows neither driver nor HTTP.
    ("tls", &["proto", "sys"]),
    // It runs a protocol with TLS or without, and answers metrics and health checks over HTTP.
    ("service", &["drivers", "proto", "sys", "tls", "wire"]),
    ("file-cache", &["service", "sys"]),
    // The front end of the servers that speak HTTP.
    ("web", &["file-cache", "proto", "service", "sys", "wire"]),
    ("loadgen", &["layouts", "proto", "sys", "wire"]),
    // Servers as they are, with the generator's burn around their protocol.
    ("burning", &["drivers", "http-server", "kvcache", "loadgen", "proto", "sys"]),
    // Data about servers, which must not make anybody compile one.
    ("servers", &[]),
    ("results", &[]),
    ("report", &["results"]),
];
/// Servers with a burn, which nobody may use.
const BURNING: &str = "burning";
const ALLOWED_TO_SERVERS: [&str; 9] =
    ["file-cache", "layouts", "proto", "script", "service", "store", "sys", "web", "wire"];

pub(super) fn point_one_way(packages: &[Package]) -> Vec<Violation> {
    packages.iter().flat_map(|package| check(package, packages)).collect()
}

fn check(package: &Package, packages: &[Package]) -> Vec<Violation> {
    // A protocol and its stores, which move no bytes themselves.
    let is_server = servers::named(&package.name).is_some();
    let allowed = ALLOWED.iter().find(|(name, _)| *name == package.name).map(|(_, allowed)| *allowed);
    let allowed = if is_server { Some(&ALLOWED_TO_SERVERS[..]) } else { allowed };
    // Tests may look at everything.
    let normal = package.dependencies.iter().filter(|dependency| dependency.kind.is_none());
    normal
        .filter_map(|dependency| {
            let name = dependency.name.as_str();
            if name == BURNING {
                return Some(format!(
                    "must not depend on {name}: its burn is for calibrations, and in no other program"
                ));
            }
            let is_room = packages.iter().any(|package| package.name == name);
            if is_room && name != "workspace-hack" && allowed.is_some_and(|allowed| !allowed.contains(&name)) {
                let allowed = allowed.unwrap_or_default().join(", ");
                return Some(format!("must not depend on {name}; of this workspace it may use: {allowed}"));
            }
            let is_own = OWN_ENGINES.contains(&(package.name.as_str(), name));
            (is_server && ENGINES.contains(&name) && !is_own)
                .then(|| format!("must not depend on {name}: a server moves no bytes, drivers do"))
        })
        .map(|message| Violation { path: format!("crate {}", package.name), line: 0, message })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use matrix::workspace::Dependency;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependency =
            |(name, kind): &(&str, Option<&str>)| Dependency { name: (*name).into(), kind: kind.map(str::to_owned) };
        Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(dependency).collect(),
            ..Package::default()
        }
    }

    fn workspace(changed: Package) -> Vec<Violation> {
        let mut packages: Vec<Package> =
            ["sys", "proto", "wire", "layouts", "drivers", "service", "loadgen", "http-server", "testkit"]
                .into_iter()
                .filter(|name| *name != changed.name)
                .map(|name| package(name, &[]))
                .collect();
        packages.push(changed);
        point_one_way(&packages)
    }

    #[test]
    fn a_dependency_against_the_direction_is_found() {
        for (from, to) in [
            ("proto", "sys"),
            ("wire", "drivers"),
            ("drivers", "service"),
            ("web", "drivers"),
            ("loadgen", "http-server"),
            ("http-server", "drivers"),
            ("layouts", "proto"),
            ("wire", "layouts"),
        ] {
            let found = workspace(package(from, &[(to, None)]));
            assert_eq!(found.len(), 1, "{from} → {to}");
            assert!(found[0].to_string().contains(to), "{}", found[0]);
        }
        assert_eq!(workspace(package("http-server", &[("service", None), ("wire", None), ("bytes", None)])), []);
        assert_eq!(workspace(package("http-server", &[("testkit", Some("dev")), ("mio", Some("dev"))])), []);
    }

    #[test]
    fn nobody_depends_on_the_servers_that_burn() {
        for name in ["http-server", "testkit", "matrix"] {
            assert_eq!(workspace(package(name, &[(BURNING, None)])).len(), 1, "{name}");
        }
    }

    #[test]
    fn a_server_with_an_event_loop_of_its_own_is_found() {
        for engine in ENGINES {
            assert_eq!(workspace(package("http-server", &[(engine, None)])).len(), 1, "{engine}");
            assert_eq!(workspace(package("drivers", &[(engine, None)])), [], "{engine}");
            let found = workspace(package("mq-server", &[(engine, None)])).len();
            assert_eq!(found, usize::from(engine != "tokio"), "{engine}");
        }
    }
}
