//! Which agent binary a device is given.

use super::TransportError;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// An agent binary on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentFile {
    pub path: PathBuf,
    /// Words between the program and the agent's own arguments.
    pub prefix: Vec<String>,
}

/// The agent for a device of `arch`: the one that was given; else `opptune-agent-ARCH` or (for this machine's
/// own architecture) `opptune-agent` next to `me`; else `me`, which is an agent too.
///
/// # Errors
/// [`TransportError::Refused`], before anything is sent, when there is none or the given one is for another
/// architecture.
pub(super) fn find(
    device: &str,
    given: Option<&Path>,
    arch: &str,
    me: &Path,
) -> Result<AgentFile, TransportError> {
    let arch = kernel_name(arch);
    let plain = |path: PathBuf| AgentFile { path, prefix: Vec::new() };
    if let Some(path) = given {
        return fits(device, path, arch).map(|()| plain(path.to_owned()));
    }
    let beside = |name: String| Some(me.with_file_name(name)).filter(|path| path.is_file());
    let own = arch == kernel_name(std::env::consts::ARCH);
    let found = beside(format!("opptune-agent-{arch}"))
        .or_else(|| own.then(|| beside("opptune-agent".into())).flatten())
        .map(plain)
        .or_else(|| own.then(|| AgentFile { path: me.to_owned(), prefix: vec!["agent".into()] }));
    let agent = found.ok_or_else(|| {
        let why = format!("there is no opptune-agent-{arch} next to {}", me.display());
        let next = "Build one with scripts/build-agent.sh, or name one with --agent";
        TransportError::refused(device, "choosing an agent", why, next)
    })?;
    fits(device, &agent.path, arch).map(|()| agent)
}

fn fits(device: &str, agent: &Path, arch: &str) -> Result<(), TransportError> {
    let refused = |why: String| {
        let next = "Build one with scripts/build-agent.sh, or name another with --agent";
        TransportError::refused(device, format!("choosing the agent {}", agent.display()), why, next)
    };
    match elf_arch(agent).map_err(|e| refused(e.to_string()))? {
        // An architecture without a name here is left to the device to judge.
        Some(built_for) if built_for != arch && is_known(arch) => {
            Err(refused(format!("it is built for {built_for}, the device is {arch}")))
        }
        Some(_) => Ok(()),
        None => Err(refused("it is not an ELF program".into())),
    }
}

/// ELF `e_machine`, class (1: 32 bit, 2: 64 bit), and the kernel's name for it.
const MACHINES: [(u16, u8, &str); 5] =
    [(183, 2, "aarch64"), (40, 1, "arm"), (62, 2, "x86_64"), (3, 1, "i686"), (243, 2, "riscv64")];

fn is_known(arch: &str) -> bool {
    MACHINES.iter().any(|(.., name)| *name == arch)
}

/// One name for what kernels and compilers call by several.
fn kernel_name(arch: &str) -> &str {
    match arch {
        "arm64" => "aarch64",
        "armv7l" | "armv8l" | "armv7" => "arm",
        "i386" | "i586" | "x86" => "i686",
        other => other,
    }
}

/// The architecture an ELF file is for; `None` when it is no such file, `"another machine"` when it is not one
/// of [`MACHINES`].
fn elf_arch(path: &Path) -> io::Result<Option<&'static str>> {
    let mut head = Vec::new();
    File::open(path)?.take(20).read_to_end(&mut head)?;
    let [0x7f, b'E', b'L', b'F', class, .., low, high] = head[..] else { return Ok(None) };
    let machine = u16::from_le_bytes([low, high]);
    let known = MACHINES.iter().find(|(m, c, _)| (*m, *c) == (machine, class));
    Ok(Some(known.map_or("another machine", |(.., name)| name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(dir: &Path, name: &str, machine: u16, class: u8) -> PathBuf {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn the_wrong_architecture_is_said_before_anything_is_sent() {
        let dir = tempfile::tempdir().unwrap();
        let phone = elf(dir.path(), "phone", 183, 2);
        let me = dir.path().join("opptune");
        assert_eq!(find("d", Some(&phone), "aarch64", &me).unwrap().path, phone);
        let wrong = find("d", Some(&phone), "x86_64", &me).unwrap_err().to_string();
        assert!(wrong.contains("built for aarch64, the device is x86_64"), "{wrong}");
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(find("d", Some(&script), "aarch64", &me).unwrap_err().to_string().contains("not an ELF"));
    }

    #[test]
    fn agents_are_looked_for_next_to_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let me = dir.path().join("opptune");
        std::fs::copy(own, &me).unwrap();
        let itself = find("d", None, std::env::consts::ARCH, &me).unwrap();
        assert_eq!(itself, AgentFile { path: me.clone(), prefix: vec!["agent".into()] });
        assert!(find("d", None, "riscv64", &me).unwrap_err().to_string().contains("build-agent.sh"));
        let board = elf(dir.path(), "opptune-agent-riscv64", 243, 2);
        assert_eq!(find("d", None, "riscv64", &me).unwrap().path, board);
        let old = elf(dir.path(), "opptune-agent-arm", 40, 1);
        assert_eq!(find("d", None, "armv8l", &me).unwrap().path, old);
    }
}
