//! Debian packages (deb(5)): one for each server and one for loadgen, made without Debian's tools. The same input makes the
//! same bytes.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use flate2::{Compression, GzBuilder};

use matrix::workspace::root;

/// A package as a file.
pub(super) struct Package {
    pub(super) file_name: String,
    pub(super) bytes: Vec<u8>,
}

/// Properties that all packages share.
pub(super) struct Release<'a> {
    /// Directory of the programs, stripped.
    pub(super) programs: &'a Path,
    pub(super) version: &'a str,
    /// Architecture as rustc names it.
    pub(super) architecture: &'a str,
    pub(super) maintainer: &'a str,
    pub(super) epoch: u64,
}

/// Content of a package: the path of each file from the root of the system, its bytes and its mode.
type Files = Vec<(String, Vec<u8>, u32)>;

/// End of every description.
const EXTENDED: &str = " Part of Quintet: servers for Linux that run on twelve I/O drivers, a load\n \
                        generator that verifies every reply, and an instrument to compare them.\n";

/// Directory of the units in packages.
const UNITS: &str = "usr/lib/systemd/system";

impl Release<'_> {
    /// Makes the package of a program.
    pub(super) fn package(&self, program: &str) -> Result<Package> {
        let name = format!("quintet-{program}");
        let mut files = self.files(program, &name)?;
        files.sort();
        let units: Vec<_> = files.iter().filter_map(|(path, ..)| path.strip_prefix(UNITS)?.strip_prefix('/')).collect();
        let architecture = debian_architecture(self.architecture);
        let user = self.has_user(program).then(|| name.clone());
        let needed: Vec<_> =
            [user.is_some().then(|| "adduser".to_owned()), depends(&fs::read(self.programs.join(program))?)]
                .into_iter()
                .flatten()
                .collect();
        let depends = if needed.is_empty() { String::new() } else { format!("Depends: {}\n", needed.join(", ")) };
        let bytes: usize = files.iter().map(|(_, bytes, _)| bytes.len()).sum();
        let control = format!(
            "Package: {name}\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {}\nInstalled-Size: {}\n\
             {depends}Section: net\nPriority: optional\nDescription: {}\n{EXTENDED}",
            self.version,
            self.maintainer,
            bytes.div_ceil(1024),
            description(program)?,
        );
        let conffiles = files.iter().filter(|(path, ..)| path.starts_with("etc/"));
        let conffiles = conffiles.fold(String::new(), |mut lines, (path, ..)| {
            _ = writeln!(lines, "/{path}");
            lines
        });
        let mut scripts = vec![("control".to_owned(), control.into_bytes(), 0o644)];
        if !conffiles.is_empty() {
            scripts.push(("conffiles".to_owned(), conffiles.into_bytes(), 0o644));
        }
        if !units.is_empty() {
            scripts.extend(maintainer_scripts(&units, user.as_deref()));
        }
        let file_name = format!("{name}_{}_{architecture}.deb", self.version);
        let members = [
            ("debian-binary", b"2.0\n".to_vec()),
            ("control.tar.gz", tar(&scripts, self.epoch)?),
            ("data.tar.gz", tar(&files, self.epoch)?),
        ];
        Ok(Package { file_name, bytes: archive(&members, self.epoch) })
    }

    fn files(&self, program: &str, name: &str) -> Result<Files> {
        let binary = self.programs.join(program);
        let mut files = vec![(format!("usr/bin/{program}"), read(&binary)?, 0o755)];
        let doc = format!("usr/share/doc/{name}");
        files.push((format!("{doc}/changelog.gz"), gzip(self.changelog(name)?.as_bytes())?, 0o644));
        for (from, to) in [
            (format!("crates/{program}/README.md"), format!("{doc}/README.md")),
            ("LICENSE-MIT".to_owned(), format!("{doc}/copyright")),
            ("LICENSE-APACHE".to_owned(), format!("{doc}/LICENSE-APACHE")),
            ("CHANGELOG.md".to_owned(), format!("{doc}/CHANGELOG.md")),
        ] {
            files.push((to, read(&root().join(from))?, 0o644));
        }
        let configuration = root().join(format!("deploy/etc/{program}.toml"));
        if configuration.is_file() {
            files.push((format!("etc/quintet/{program}.toml"), read(&configuration)?, 0o644));
            for (_, path) in generated(program) {
                let text = read(&self.programs.join(&path))?;
                files.push(match path.contains("/man/") {
                    true => (format!("usr/{path}.gz"), gzip(&text)?, 0o644),
                    false => (format!("usr/{path}"), text, 0o644),
                });
            }
        }
        for unit in units(name)? {
            let file = unit.file_name().context("a unit without a name")?.to_string_lossy().into_owned();
            files.push((format!("{UNITS}/{file}"), read(&unit)?, 0o644));
        }
        Ok(files)
    }

    /// True if the server runs as a user of its own: one with sockets does, and mq-server as the user whom it serves.
    fn has_user(&self, program: &str) -> bool {
        root().join(format!("deploy/systemd/quintet-{program}.service")).is_file()
    }

    /// Returns the changelog in Debian's format (deb-changelog(5)), which names the one for readers.
    fn changelog(&self, name: &str) -> Result<String> {
        let date = Command::new("date").args(["--utc", "--rfc-email", "--date", &format!("@{}", self.epoch)]).output();
        let date = String::from_utf8(date.context("date")?.stdout).context("date")?;
        let Self { version, maintainer, .. } = self;
        let date = date.trim();
        Ok(format!(
            "{name} ({version}) unstable; urgency=medium\n\n  * Release {version}: see CHANGELOG.md.\n\n -- {maintainer}  {date}\n"
        ))
    }
}

/// Returns the kinds of text that a server makes of itself, and the places of those beneath a prefix such as /usr.
fn generated(program: &str) -> [(&'static str, String); 5] {
    [
        ("man", format!("share/man/man1/{program}.1")),
        ("bash", format!("share/bash-completion/completions/{program}")),
        ("fish", format!("share/fish/vendor_completions.d/{program}.fish")),
        ("zsh", format!("share/zsh/vendor-completions/_{program}")),
        ("seccomp", format!("share/quintet/seccomp/quintet-{program}.json")),
    ]
}

/// Has each server among these programs of a directory write its manual page, its completions and its profile of system calls there.
pub(super) fn generate_texts(directory: &Path, programs: &[&str]) -> Result<()> {
    let is_server = |program: &&&str| root().join(format!("deploy/etc/{program}.toml")).is_file();
    for program in programs.iter().filter(is_server) {
        for (kind, path) in generated(program) {
            let (binary, path) = (directory.join(program), directory.join(path));
            let output = Command::new(&binary).args(["--generate", kind]).output();
            let output = output.with_context(|| binary.display().to_string())?;
            ensure!(output.status.success(), "{} --generate {kind}: {}", binary.display(), output.status);
            let directory = path.parent().context("a path without a directory")?;
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
            fs::write(&path, output.stdout).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Units whose names begin with that of a package.
fn units(name: &str) -> Result<Vec<PathBuf>> {
    let directory = root().join("deploy/systemd");
    let entries = fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
    let mut units = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let is_ours = |unit: &PathBuf| {
        let rest = unit.file_name().and_then(|file| file.to_str()).and_then(|file| file.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with(['.', '@']))
    };
    units.retain(is_ours);
    units.sort();
    Ok(units)
}

/// Scripts that make the user and let systemd know of the units. None starts anything: that is the administrator's to do. The
/// user stays when the package goes, as its files may.
fn maintainer_scripts(units: &[&str], user: Option<&str>) -> Files {
    let running: Vec<_> = units.iter().map(|unit| unit.replace("@.", "@*.")).collect();
    let reload = "if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi\n";
    let add_user = user.map_or_else(String::new, |user| {
        format!("\tadduser --system --group --quiet --no-create-home --home /nonexistent {user}\n")
    });
    let configure = format!("#!/bin/sh\nset -e\nif [ \"$1\" = configure ]; then\n{add_user}\t{reload}fi\n");
    let stop = format!(
        "#!/bin/sh\nset -e\nif [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then\n\tsystemctl stop '{}' || true\n\tsystemctl disable '{}' || true\nfi\n",
        running.join("' '"),
        units.join("' '"),
    );
    vec![
        ("postinst".to_owned(), configure.into_bytes(), 0o755),
        ("postrm".to_owned(), format!("#!/bin/sh\nset -e\n{reload}").into_bytes(), 0o755),
        ("prerm".to_owned(), stop.into_bytes(), 0o755),
    ]
}

fn debian_architecture(architecture: &str) -> &str {
    match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Libraries of the C compiler that a program needs: the newest version of glibc that its symbols name; `None`: it is linked
/// statically.
fn depends(program: &[u8]) -> Option<String> {
    if is_static(program) {
        return None;
    }
    const VERSION: &[u8] = b"GLIBC_2.";
    let named = program.windows(VERSION.len()).enumerate().filter(|(_, window)| *window == VERSION);
    let minors = named.filter_map(|(at, _)| {
        let digits = program[at + VERSION.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        String::from_utf8(digits.copied().collect()).ok()?.parse::<u32>().ok()
    });
    Some(minors.max().map_or_else(|| "libc6".to_owned(), |minor| format!("libc6 (>= 2.{minor}), libgcc-s1")))
}

/// True for a program (elf(5), of 64 bits, little endian) that no other one has to load.
fn is_static(program: &[u8]) -> bool {
    const INTERPRETER: u64 = 3;
    let number = |at: u64, bytes: usize| {
        let at = usize::try_from(at).ok()?;
        let field = program.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let headers = || Some((number(32, 8)?, number(54, 2)?, number(56, 2)?));
    let Some((begin, size, count)) = headers().filter(|_| program.starts_with(b"\x7fELF\x02\x01")) else {
        return false;
    };
    (0..count).all(|at| number(begin + at * size, 4).is_some_and(|kind| kind != INTERPRETER))
}

/// The first line of a program's help, as its crate has it.
fn description(program: &str) -> Result<String> {
    let manifest = root().join(format!("crates/{program}/Cargo.toml"));
    let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("description = \"")?.strip_suffix('"'));
    line.map(str::to_owned).with_context(|| format!("{}: no description", manifest.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    std::io::Write::write_all(&mut gzip, bytes)?;
    Ok(gzip.finish()?)
}

/// The archive of files and of the directories that they are in, root's, changed at `epoch`.
fn tar(files: &Files, epoch: u64) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzBuilder::new().write(Vec::new(), Compression::best()));
    let mut add = |path: &str, bytes: &[u8], mode, kind| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_mtime(epoch);
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root")?;
        header.set_groupname("root")?;
        archive.append_data(&mut header, path, bytes)
    };
    let mut directories = std::collections::BTreeSet::new();
    for (path, bytes, mode) in files {
        let parents: Vec<_> = Path::new(path).ancestors().skip(1).filter(|parent| parent.parent().is_some()).collect();
        for parent in parents.into_iter().rev() {
            if directories.insert(parent.to_owned()) {
                add(&format!("{}/", parent.display()), b"", 0o755, tar::EntryType::Directory)?;
            }
        }
        add(path, bytes, *mode, tar::EntryType::Regular)?;
    }
    Ok(archive.into_inner()?.finish()?)
}

/// The outer archive (ar(5)), which has a head of text for each member.
fn archive(members: &[(&str, Vec<u8>)], epoch: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let head = format!("{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 100_644, bytes.len());
        archive.extend_from_slice(head.as_bytes());
        archive.extend_from_slice(bytes);
        // Members begin at even places.
        archive.resize(archive.len().next_multiple_of(2), b'\n');
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{are_tools_required, is_installed};

    /// Programs that answer `--generate`, and do nothing else. A shell writes them: what this process has open for writing, a child
    /// that another test starts meanwhile has open, too, and then it cannot be executed (ETXTBSY).
    fn packages(directory: &Path) -> Vec<Package> {
        let write = r##"for program; do printf '#!/bin/sh\n# GLIBC_2.9 GLIBC_2.34\necho "$2"\n' > "$program"; done; chmod 755 "$@""##;
        let paths = servers::programs().into_iter().map(|program| directory.join(program));
        assert!(Command::new("sh").args(["-c", write, "sh"]).args(paths).status().unwrap().success());
        generate_texts(directory, &servers::programs()).unwrap();
        let release = Release {
            programs: directory,
            version: "1.2",
            architecture: "x86_64",
            maintainer: "Nobody <nobody@example.com>",
            epoch: 1_700_000_000,
        };
        servers::programs().into_iter().map(|program| release.package(program).unwrap()).collect()
    }

    #[test]
    fn the_same_input_makes_the_same_packages() {
        let [first, second] = [0, 1].map(|_| tempfile::tempdir().unwrap());
        let (first, second) = (packages(first.path()), packages(second.path()));
        assert_eq!(first.len(), servers::programs().len());
        for (first, second) in first.iter().zip(&second) {
            assert!(first.file_name == second.file_name && first.bytes == second.bytes, "{}", first.file_name);
        }
    }

    #[test]
    fn dpkg_reads_what_is_in_a_package() {
        if !is_installed("dpkg-deb") {
            assert!(!are_tools_required(), "dpkg-deb is not installed");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        for package in packages(directory.path()) {
            let path = directory.path().join(&package.file_name);
            fs::write(&path, &package.bytes).unwrap();
            let said = |question: &str| {
                let output = Command::new("dpkg-deb").arg(question).arg(&path).output().unwrap();
                assert!(output.status.success(), "{}: {output:?}", package.file_name);
                String::from_utf8(output.stdout).unwrap()
            };
            let (fields, contents) = (said("--field"), said("--contents"));
            assert!(fields.contains("libc6 (>= 2.34), libgcc-s1\n"), "{fields}");
            assert!(fields.contains("Architecture: amd64\n") && fields.contains("Version: 1.2\n"), "{fields}");
            assert!(contents.contains(" usr/bin/") && contents.contains("-rwxr-xr-x root/root"), "{contents}");
            let is_server = !package.file_name.starts_with("quintet-loadgen");
            for path in ["etc/quintet/", "usr/lib/systemd/system/quintet-", "usr/share/man/man1/"] {
                assert_eq!(contents.contains(path), is_server, "{path}: {contents}");
            }
        }
    }

    #[test]
    fn a_program_without_an_interpreter_needs_no_library() {
        // This test is loaded by one.
        let mut program = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&program) && depends(&program).is_some_and(|needed| needed.starts_with("libc6")));
        // No header of a segment is left.
        program[56..58].fill(0);
        assert!(is_static(&program) && depends(&program).is_none());
    }

    #[test]
    fn scripts_start_nothing() {
        let scripts = maintainer_scripts(&["quintet-a@.service", "quintet-a.socket"], Some("quintet-a"));
        for (name, text, _) in &scripts {
            let text = String::from_utf8(text.clone()).unwrap();
            assert!(
                !text.contains(" start ") && !text.contains("enable ") | text.contains("disable"),
                "{name}: {text}"
            );
        }
        let (_, prerm, _) = &scripts[2];
        assert!(String::from_utf8_lossy(prerm).contains("'quintet-a@*.service'"));
    }
}
