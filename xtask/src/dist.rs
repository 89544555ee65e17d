//! `cargo xtask dist`: what users run and read, in one archive for each C library, as Debian packages and as images of containers.
//! The programs are linked statically, and the same input makes the same bytes.

pub(crate) mod builder;
mod debian;
mod images;
pub(crate) mod musl;
pub(crate) mod reproduction;
mod sbom;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use matrix::workspace::{cargo, first_line, metadata, root, run_shown};

/// Name of the file of checksums.
const SUMS: &str = "SHA256SUMS";
/// Namespace of signatures (ssh-keygen(1)): one that was made for another purpose is not valid for a release.
const NAMESPACE: &str = "quintet";
/// Texts beside the programs: files, and directories with all that is in them.
const TEXTS: [&str; 5] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "docs"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory of the archive and SHA256SUMS [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Pack the programs in this directory instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,

    /// Private key of OpenSSH's that SHA256SUMS is signed with, for the namespace `quintet`
    #[arg(long, value_name = "FILE")]
    sign_key: Option<PathBuf>,

    /// Maintainer that the Debian packages name
    #[arg(long, value_name = "NAME <ADDRESS>", default_value = "Quintet <root@localhost>")]
    maintainer: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let target_directory = metadata()?.target_directory;
    let (version, host, epoch) = (env!("CARGO_PKG_VERSION"), host()?, epoch()?);
    let build = |target: &str| {
        let build = Build {
            tree: &root(),
            cargo_home: &builder::cargo_home(),
            target_directory: &target_directory,
            target,
            profile: "release",
            packages: &["--workspace"],
            programs: &servers::programs(),
        };
        run_shown(&mut build.command()).map(|()| build.programs_directory())
    };
    let out = args.out.clone().unwrap_or_else(|| target_directory.join("dist"));
    let programs = args.programs.clone().map_or_else(|| build(&host), Ok)?;
    let stripped = strip(&programs, &servers::programs())?;
    let mut files = archive(version, &host, stripped.path(), epoch)?;
    let musl = if args.programs.is_none() { musl::target(&host)? } else { None };
    if let Some(musl) = &musl {
        files.extend(archive(version, musl, strip(&build(musl)?, &servers::programs())?.path(), epoch)?);
    }
    let architecture = host.split('-').next().unwrap_or_default();
    let release =
        debian::Release { programs: stripped.path(), version, architecture, maintainer: &args.maintainer, epoch };
    for program in servers::programs() {
        let package = release.package(program).with_context(|| format!("the package of {program}"))?;
        files.push((package.file_name, package.bytes));
    }
    let images = images::Images { programs: stripped.path(), version, architecture, epoch };
    for program in servers::programs() {
        files.push(images.image(program).with_context(|| format!("the image of {program}"))?);
    }
    files.push((SUMS.to_owned(), sums(&files)));
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    for (file, bytes) in files {
        let path = out.join(file);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    if let Some(key) = &args.sign_key {
        println!("{}", sign(&out.join(SUMS), key)?.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the archive of the programs for a target, and its bill of materials. What the programs say of themselves is written
/// beside them.
fn archive(version: &str, target: &str, programs: &Path, epoch: u64) -> Result<Vec<(String, Vec<u8>)>> {
    debian::generate_texts(programs, &servers::programs())?;
    let name = format!("quintet-{version}-{target}");
    let packed = pack(&name, programs, &root(), epoch)?;
    Ok(vec![(format!("{name}.tar.gz"), packed), (format!("{name}.cdx.json"), sbom::bill(version, target)?)])
}

/// Signs a file as `ssh-keygen -Y verify` reads it. Returns the file of the signature.
fn sign(file: &Path, key: &Path) -> Result<PathBuf> {
    let mut name = file.as_os_str().to_owned();
    name.push(".sig");
    let signature = PathBuf::from(name);
    if signature.exists() {
        // It would ask.
        fs::remove_file(&signature).with_context(|| signature.display().to_string())?;
    }
    let mut command = Command::new("ssh-keygen");
    run_shown(command.args(["-q", "-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key).arg(file))?;
    Ok(signature)
}

/// A build of programs. They are linked statically: with the C library of the target, and run on any kernel of its architecture, in
/// an empty image, too. Messages of panics name source files: without the place of the tree and of the registry, two builds in
/// different places make the same bytes.
struct Build<'a> {
    tree: &'a Path,
    cargo_home: &'a Path,
    target_directory: &'a Path,
    target: &'a str,
    profile: &'a str,
    /// Arguments of cargo's that name the packages and their features.
    packages: &'a [&'static str],
    programs: &'a [&'static str],
}

impl Build<'_> {
    fn command(&self) -> Command {
        let Self { tree, cargo_home, target_directory, target, profile, packages, programs } = self;
        let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
        // The linker hashes all that it writes into the build id: with symbols, also the names that LTO gives to functions that
        // another unit calls, which differ from build to build where the code does not.
        let [is_static, without_symbols] = ["-Ctarget-feature=+crt-static", "-Cstrip=symbols"].map(str::to_owned);
        let flags = [remap(cargo_home, "/cargo"), remap(tree, "/quintet"), is_static, without_symbols].join("\x1f");
        // Those of C, which some crates bring, say it otherwise.
        let c_flags = flags_of_c(&[(cargo_home, "/cargo"), (tree, "/quintet"), (target_directory, "/target")]);
        let mut command = cargo();
        // With a target, the flags are not those of macros, which are libraries that the compiler loads.
        command.args(["build", "--locked", "--profile", profile, "--target", target]).args(*packages);
        command.args(programs.iter().flat_map(|program| ["--bin", program])).current_dir(tree);
        command.env("CARGO_TARGET_DIR", target_directory).env("CARGO_ENCODED_RUSTFLAGS", flags).env("CFLAGS", c_flags);
        command
    }

    /// Returns where the programs are then.
    fn programs_directory(&self) -> PathBuf {
        self.target_directory.join(self.target).join(self.profile)
    }
}

/// Returns a directory of programs without their symbols.
fn strip(directory: &Path, programs: &[&str]) -> Result<TempDir> {
    let stripped = tempfile::tempdir().context("temporary directory")?;
    for program in programs {
        run_shown(Command::new("strip").arg("-o").arg(stripped.path().join(program)).arg(directory.join(program)))?;
    }
    Ok(stripped)
}

fn flags_of_c(places: &[(&Path, &str)]) -> String {
    let flags = places.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    flags.collect::<Vec<_>>().join(" ")
}

/// Returns the target of rustc's that this machine is.
pub(crate) fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc -vV")?;
    let said = String::from_utf8(output.stdout).context("rustc -vV")?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

/// When everything in the archive was changed last, in seconds: what SOURCE_DATE_EPOCH says, or the commit.
fn epoch() -> Result<u64> {
    let said = std::env::var("SOURCE_DATE_EPOCH").ok();
    let said = said
        .or_else(|| first_line("git", &["log", "-1", "--format=%ct"]))
        .context("no SOURCE_DATE_EPOCH, no commit")?;
    said.parse().with_context(|| format!("not a time: {said}"))
}

/// The checksum of each file, as sha256sum(1) reads them.
fn sums(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let line = |(name, bytes): &(String, Vec<u8>)| {
        let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digest}  {name}\n")
    };
    files.iter().map(line).collect::<String>().into_bytes()
}

/// The archive: everything under a directory `name`, in the order of names, nobody's, changed at `epoch`.
fn pack(name: &str, programs: &Path, texts: &Path, epoch: u64) -> Result<Vec<u8>> {
    let packed = servers::programs();
    let mut files: Vec<_> =
        packed.iter().map(|program| (format!("bin/{program}"), programs.join(program), 0o755)).collect();
    let manuals = packed.iter().map(|program| format!("crates/{program}/README.md"));
    for text in TEXTS.map(str::to_owned).into_iter().chain(manuals) {
        collect(texts, Path::new(&text), &mut files)?;
    }
    collect(programs, Path::new("share"), &mut files)?;
    files.sort();
    let gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(gzip);
    for (inside, path, mode) in files {
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_mtime(epoch);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, format!("{name}/{inside}"), &bytes[..]).context(inside)?;
    }
    Ok(archive.into_inner()?.finish()?)
}

/// A file, or all files beneath a directory.
fn collect(root: &Path, inside: &Path, files: &mut Vec<(String, PathBuf, u32)>) -> Result<()> {
    let path = root.join(inside);
    if path.is_dir() {
        for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
            collect(root, &inside.join(entry?.file_name()), files)?;
        }
    } else if path.is_file() {
        files.push((inside.to_str().context("a name that is not UTF-8")?.to_owned(), path, 0o644));
    } else {
        bail!("{} is missing", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Vec<u8> {
        let programs = tempfile::tempdir().unwrap();
        for program in servers::programs() {
            fs::write(programs.path().join(program), program).unwrap();
        }
        fs::create_dir_all(programs.path().join("share/man/man1")).unwrap();
        fs::write(programs.path().join("share/man/man1/kvcache.1"), ".TH kvcache 1").unwrap();
        pack("quintet-1", programs.path(), &root(), 1_700_000_000).unwrap()
    }

    #[test]
    fn programs_and_what_their_users_read_go_in_and_nothing_else() {
        let archive = archive();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&archive[..]));
        let mut inside = std::collections::BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 1_700_000_000));
            let path = entry.path().unwrap().strip_prefix("quintet-1").unwrap().to_str().unwrap().to_owned();
            inside.insert(path, header.mode().unwrap());
        }
        for program in servers::programs() {
            assert_eq!(inside.remove(&format!("bin/{program}")), Some(0o755));
            assert_eq!(inside.remove(&format!("crates/{program}/README.md")), Some(0o644));
        }
        for text in [
            "share/man/man1/kvcache.1",
            "README.md",
            "CHANGELOG.md",
            "LICENSE-APACHE",
            "LICENSE-MIT",
            "docs/kvcache.md",
        ] {
            assert_eq!(inside.remove(text), Some(0o644), "{text}");
        }
        assert!(inside.keys().all(|path| path.starts_with("docs/")), "{inside:?}");
    }

    #[test]
    fn the_same_input_makes_the_same_bytes() {
        let (first, second) = (archive(), archive());
        assert!(first == second);
        let sums = String::from_utf8(sums(&[("a.tar.gz".to_owned(), first), ("b.deb".to_owned(), second)])).unwrap();
        assert!(sums.lines().count() == 2 && sums.ends_with("  b.deb\n"), "{sums}");
    }

    #[test]
    fn a_signature_is_that_of_its_key_and_of_its_file() {
        if Command::new("ssh-keygen").arg("-?").output().is_err() {
            assert!(!crate::verify::are_tools_required(), "ssh-keygen is not installed");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for key in ["ours", "theirs"] {
            let mut command = Command::new("ssh-keygen");
            assert!(command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(key)).status().unwrap().success());
        }
        let sums = path(SUMS);
        let verify = |file: &Path| {
            let mut command = Command::new("ssh-keygen");
            command.args(["-Y", "verify", "-I", "builder", "-n", NAMESPACE, "-f"]).arg(path("signers"));
            command.arg("-s").arg(path("SHA256SUMS.sig")).stdin(fs::File::open(file).unwrap());
            command.output().unwrap().status.success()
        };
        let public = fs::read_to_string(path("ours.pub")).unwrap();
        fs::write(path("signers"), format!("builder {public}")).unwrap();
        fs::write(&sums, "00  a.tar.gz\n").unwrap();
        fs::write(path("changed"), "01  a.tar.gz\n").unwrap();
        for (key, is_valid) in [("ours", true), ("theirs", false)] {
            assert_eq!(sign(&sums, &path(key)).unwrap(), path("SHA256SUMS.sig"));
            assert_eq!((verify(&sums), verify(&path("changed"))), (is_valid, false), "{key}");
        }
    }

    #[test]
    fn a_program_that_is_missing_is_an_error() {
        let nothing = tempfile::tempdir().unwrap();
        let error = pack("quintet-1", nothing.path(), &root(), 0).unwrap_err();
        assert!(format!("{error:#}").contains(&*nothing.path().to_string_lossy()), "{error:#}");
    }
}
