//! Runs http-server and zerocopy with the kernel's TLS, in a guest of QEMU's whose kernel has it.
//!
//! The guest is a kernel as a distribution packages it and an initramfs made here: busybox, the programs with their shared
//! libraries, curl, openssl and strace. Its first process is a script that fetches files on every driver.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use matrix::workspace::{cargo, metadata, root, run_shown};

use super::{Outcome, tools};

const GUEST: &str = include_str!("ktls/guest.sh");
const SERVERS: [&str; 2] = ["http-server", "zerocopy"];
/// Programs of this machine that the guest has, too.
const PROGRAMS: [&str; 3] = ["curl", "openssl", "strace"];
/// Modules of the kernel: TLS, and the ciphers that it would load by itself.
const MODULES: [&str; 8] = [
    "tls",
    "gcm",
    "ccm",
    "aesni_intel",
    "ghash_clmulni_intel",
    "chacha20poly1305",
    "chacha_generic",
    "poly1305_generic",
];
/// The guest is a program that runs on two emulated processors: this takes minutes.
const GUEST_MAX: Duration = Duration::from_secs(3600);

/// Kernel with its modules.
struct Kernel {
    /// Root that it was installed below.
    root: PathBuf,
    version: String,
}

/// `root` is where a package of a kernel has been installed or unpacked.
pub(super) fn run(kernel_root: &Path) -> Result<Outcome> {
    for program in ["qemu-system-x86_64", "busybox", "modprobe", "cpio", "strip"].into_iter().chain(PROGRAMS) {
        if find(program).is_none() {
            let hint = "Debian: qemu-system-x86 busybox-static kmod cpio binutils curl openssl strace";
            return Ok(Outcome::Skipped(format!("{program} is not installed ({hint})")));
        }
    }
    let Some(kernel) = Kernel::find(kernel_root)? else {
        let hint = "dpkg -x linux-image-…-amd64.deb DIR, and --kernel-root DIR";
        return Ok(Outcome::Skipped(format!("no kernel with TLS below {} ({hint})", kernel_root.display())));
    };
    let manifest = |server: &&str| format!("path+file://{}", root().join("crates").join(server).display());
    let packages = SERVERS.iter().flat_map(|server| ["--package".to_owned(), manifest(server)]);
    run_shown(cargo().arg("build").args(packages).current_dir(root()))?;
    let directory = tools::directory()?.join("ktls");
    let initramfs = initramfs(&directory, &kernel)?;
    let log = boot(&kernel, &initramfs, &directory)?;
    print!("{log}");
    ensure!(log.contains("VERDICT: passed"), "the guest says so above");
    Ok(Outcome::Passed)
}

impl Kernel {
    fn find(root: &Path) -> Result<Option<Self>> {
        let Ok(images) = fs::read_dir(root.join("boot")) else { return Ok(None) };
        for image in images {
            let name = image?.file_name().to_string_lossy().into_owned();
            let Some(version) = name.strip_prefix("vmlinuz-") else { continue };
            let modules = root.join("lib/modules").join(version);
            if modules.join("kernel/net/tls").is_dir() {
                if !modules.join("modules.dep").is_file() {
                    run_shown(Command::new("depmod").arg("-b").arg(root).arg(version).env("PATH", path()))?;
                }
                return Ok(Some(Self { root: root.to_owned(), version: version.to_owned() }));
            }
        }
        Ok(None)
    }

    fn image(&self) -> PathBuf {
        self.root.join("boot").join(format!("vmlinuz-{}", self.version))
    }

    /// Returns the files of a module and of those that it needs, in the order in which they are loaded. None if it is built in.
    fn module(&self, name: &str) -> Result<Vec<PathBuf>> {
        let mut command = Command::new("modprobe");
        command.args(["-S", &self.version, "--show-depends", name]).arg("-d").arg(&self.root).env("PATH", path());
        let listed = String::from_utf8(command.output().context("modprobe")?.stdout)?;
        let files = listed.lines().filter_map(|line| line.strip_prefix("insmod "));
        Ok(files.map(|file| PathBuf::from(file.trim())).collect())
    }
}

/// Returns PATH with the directories that only root has in it.
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = path();
    let mut found = std::env::split_paths(&path).map(|directory| directory.join(program));
    found.find(|file| file.is_file())
}

fn program(name: &str) -> Result<PathBuf> {
    find(name).with_context(|| format!("{name} is not installed"))
}

/// Packs everything that the guest has.
fn initramfs(directory: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let tree = directory.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    for made in ["bin", "dev", "proc", "sys", "tmp", "lib/modules", "lib64", "etc", "usr/lib/ssl"] {
        fs::create_dir_all(tree.join(made))?;
    }
    fs::copy(program("busybox")?, tree.join("bin/busybox"))?;
    for name in PROGRAMS {
        fs::copy(program(name)?, tree.join("bin").join(name))?;
    }
    let built = metadata()?.target_directory.join("debug");
    for server in SERVERS {
        run_shown(Command::new("strip").arg("-o").arg(tree.join("bin").join(server)).arg(built.join(server)))?;
    }
    for name in PROGRAMS.into_iter().chain(SERVERS) {
        copy_libraries(&tree, name)?;
    }
    let mut modules = String::new();
    for name in MODULES {
        for file in kernel.module(name)? {
            let name = file.file_name().context("a module without a name")?.to_string_lossy().into_owned();
            let line = format!("/lib/modules/{name}\n");
            if !modules.contains(&line) {
                fs::copy(&file, tree.join("lib/modules").join(&name))?;
                modules += &line;
            }
        }
    }
    fs::write(tree.join("etc/modules"), modules)?;
    fs::write(tree.join("etc/hosts"), "127.0.0.1 localhost\n")?;
    fs::write(tree.join("etc/nsswitch.conf"), "hosts: files\n")?;
    fs::write(tree.join("etc/passwd"), "root:x:0:0::/:/bin/sh\n")?;
    fs::write(tree.join("usr/lib/ssl/openssl.cnf"), "[req]\ndistinguished_name = name\n[name]\n")?;
    fs::write(tree.join("init"), GUEST)?;
    fs::set_permissions(tree.join("init"), fs::Permissions::from_mode(0o755))?;
    let packed = directory.join("initramfs.gz");
    let pack = "find . | cpio -o -H newc --quiet | gzip -1 > \"$0\"";
    run_shown(Command::new("sh").args(["-c", pack]).arg(&packed).current_dir(&tree))?;
    Ok(packed)
}

/// Copies the shared libraries of a program, and the loader, to where the loader looks.
fn copy_libraries(tree: &Path, name: &str) -> Result<()> {
    let output = Command::new("ldd").arg(tree.join("bin").join(name)).output().context("ldd")?;
    for line in String::from_utf8(output.stdout)?.lines() {
        let Some(file) = line.split_whitespace().find(|word| word.starts_with('/')).map(Path::new) else { continue };
        let name = file.file_name().context("a library without a name")?;
        let into = if line.contains("=>") { "lib" } else { "lib64" };
        fs::copy(file, tree.join(into).join(name)).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Runs the guest to its end, and returns what it said.
fn boot(kernel: &Kernel, initramfs: &Path, directory: &Path) -> Result<String> {
    let console = format!("console=ttyS0 quiet panic=-1 SERVERS=\"{}\"", SERVERS.join(" "));
    let log = directory.join("guest.log");
    let mut command = Command::new("timeout");
    command.arg(GUEST_MAX.as_secs().to_string()).arg("qemu-system-x86_64");
    // Emulated: a machine that is virtual itself need not let others be.
    command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1500", "-nic", "none"]);
    command.args(["-nographic", "-no-reboot", "-append", &console, "-kernel"]).arg(kernel.image());
    command.arg("-initrd").arg(initramfs).stdin(std::process::Stdio::null()).stdout(fs::File::create(&log)?);
    let status = command.status().context("qemu-system-x86_64")?;
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if !status.success() {
        bail!("the guest ended with {status}: {said}");
    }
    Ok(said)
}
