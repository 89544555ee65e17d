//! Rule about features: a program is built with the dependencies that the whole workspace is built with, so that
//! `cargo build -p PROGRAM` compiles nothing that `cargo test` has compiled. `crates/workspace-hack` names the features.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use matrix::workspace::{Package, cargo};

use super::Violation;

const HACK: &str = "workspace-hack";
/// Dependencies that a build has, and those that a test has: first those of the programs themselves, then with those of
/// build scripts and macros, which may have other features.
const BUILD: [&str; 2] = ["normal,no-proc-macro", "normal,build"];
const TEST: [&str; 2] = ["normal,dev,no-proc-macro", "normal,build,dev"];

/// Dependency → the sets of features that it is compiled with: those for build scripts and macros may be others.
type Compiled = BTreeMap<String, BTreeSet<String>>;

pub(super) fn every_package_shares_them(packages: &[Package]) -> Vec<Violation> {
    let others = packages.iter().filter(|package| package.name != HACK);
    let lacking = others.filter(|package| {
        let mut uses = package.dependencies.iter().filter(|dependency| dependency.name == HACK);
        !uses.any(|dependency| dependency.kind.is_none() || !package.has_program())
    });
    lacking
        .map(|package| {
            let section = if package.has_program() { "[dependencies]" } else { "[dev-dependencies]" };
            violation(package, format!("{section} lacks {HACK}.workspace = true"))
        })
        .collect()
}

/// # Errors
/// Cargo cannot say which features a dependency would have.
pub(super) fn programs_compile_nothing_else(packages: &[Package]) -> Result<Vec<Violation>> {
    let mut found = BTreeSet::new();
    for (build, test) in BUILD.into_iter().zip(TEST) {
        let all = compiled(&["--workspace", "--edges", test])?;
        let mut compare = |command: &str, selection: &[&str]| -> Result<()> {
            let differences = differences(&compiled(selection)?, &all);
            found.extend(differences.into_iter().map(|difference| (command.to_owned(), difference)));
            Ok(())
        };
        compare("cargo build --workspace", &["--workspace", "--edges", build])?;
        for package in packages.iter().filter(|package| package.has_program()) {
            let name = &package.name;
            compare(&format!("cargo build -p {name}"), &["--package", &package.id, "--edges", build])?;
            compare(&format!("cargo test -p {name}"), &["--package", &package.id, "--edges", test])?;
        }
    }
    let told = |(command, difference)| Violation {
        path: format!("crates/{HACK}/Cargo.toml"),
        line: 0,
        message: format!("{command} would compile {difference}"),
    };
    Ok(found.into_iter().map(told).collect())
}

fn violation(package: &Package, message: String) -> Violation {
    Violation { path: format!("crate {}", package.name), line: 0, message }
}

fn compiled(selection: &[&str]) -> Result<Compiled> {
    let output = cargo().args(["tree", "--prefix", "none", "--format", "{p}|{f}"]).args(selection).output()?;
    if !output.status.success() {
        bail!("cargo tree {}: {}", selection.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Lines `NAME vVERSION|FEATURE,FEATURE`; behind them may stand ` (*)`, and behind the version a path or `(proc-macro)`.
fn parse(tree: &str) -> Compiled {
    let mut compiled = Compiled::new();
    for (package, features) in tree.lines().filter_map(|line| line.split_once('|')) {
        let name = package.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let features = features.trim_end_matches("(*)").trim();
        compiled.entry(name).or_default().insert(features.to_owned());
    }
    compiled
}

/// Names what is compiled in `found` and not in `all`.
fn differences(found: &Compiled, all: &Compiled) -> Vec<String> {
    let none = BTreeSet::new();
    let pairs = found.iter().flat_map(|(name, sets)| sets.iter().map(move |set| (name, set)));
    let other = pairs.filter(|(name, set)| !all.get(*name).unwrap_or(&none).contains(*set));
    other
        .map(|(name, set)| {
            let features = if set.is_empty() { "no features" } else { set.as_str() };
            let known: Vec<&str> = all.get(name).unwrap_or(&none).iter().map(String::as_str).collect();
            format!("{name} with {features}, the workspace with {}", known.join(" or "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use matrix::workspace::{Dependency, Target};

    use super::*;

    fn package(name: &str, kind: Option<&str>, target: &str) -> Package {
        let hack = Dependency { name: HACK.to_owned(), kind: kind.map(str::to_owned) };
        let targets = vec![Target { kind: vec![target.to_owned()], ..Target::default() }];
        Package { name: name.to_owned(), dependencies: vec![hack], targets, ..Package::default() }
    }

    #[test]
    fn a_package_without_the_shared_features_is_found() {
        let fine = [package("kvcache", None, "bin"), package("proto", Some("dev"), "lib"), package("sys", None, "lib")];
        assert_eq!(every_package_shares_them(&fine), []);
        let alone = Package { dependencies: Vec::new(), ..package("proto", None, "lib") };
        let found = every_package_shares_them(&[package("kvcache", Some("dev"), "bin"), alone]);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("[dependencies]") && found[1].contains("[dev-dependencies]"), "{found:?}");
    }

    #[test]
    fn a_dependency_with_other_features_is_found() {
        let all = parse("nix v0.31.3|fs,net\nsyn v2.0.119|full\nsyn v2.0.119|\nserde v1.0.229 (proc-macro)|\n");
        assert_eq!(differences(&parse("nix v0.31.3|fs,net (*)\nsyn v2.0.119|full\n"), &all), [""; 0]);
        assert_eq!(
            differences(&parse("nix v0.31.3|fs\nnew v1.0.0|\n"), &all),
            ["new v1.0.0 with no features, the workspace with ", "nix v0.31.3 with fs, the workspace with fs,net"]
        );
    }
}
