//! From a host's name to a session on it: connect, check its key, prove who we are.

use super::config::Target;
use crate::transport::TransportError;
use ssh2::{CheckResult, HashType, HostKeyType, KnownHostFileKind, KnownHosts, MethodType, Session};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// For one address to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// For one exchange of the log-in.
const QUICK_MS: u32 = 15_000;
/// Seconds of silence after which the host is asked for a sign of life.
const KEEPALIVE_S: u32 = 10;

/// Host key algorithms by type, in OpenSSH's order. A host is known by the types that are on file for it, not
/// by the one it would rather show.
const KEY_TYPES: [&str; 3] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521",
    "rsa-sha2-512,rsa-sha2-256,ssh-rsa",
];

/// A session, and the socket it uses: to wait for, never to read from.
pub(super) struct Login {
    pub session: Session,
    pub socket: TcpStream,
}

/// A session that is logged in. Blocks.
pub(super) fn log_in(device: &str, target: &Target) -> Result<Login, TransportError> {
    let login = known(device, target)?;
    authenticate(&login.session, target).map_err(|why| {
        let next = format!("Try: ssh -p {} {}@{}", target.port, target.user, target.host);
        TransportError::refused(device, format!("logging in as {}", target.user), why, next)
    })?;
    login.session.set_keepalive(true, KEEPALIVE_S);
    Ok(login)
}

/// A session with a host that shows a key that is on file.
fn known(device: &str, target: &Target) -> Result<Login, TransportError> {
    let first = greet(device, target, &KEY_TYPES.join(","))?;
    let mut worst = check(device, target, &first.session)?;
    if let CheckResult::Match = worst {
        return Ok(first);
    }
    for kind in KEY_TYPES {
        // A type the host does not have ends the handshake; that says nothing about the others.
        let Ok(login) = greet(device, target, kind) else { continue };
        match check(device, target, &login.session)? {
            CheckResult::Match => return Ok(login),
            CheckResult::Mismatch => worst = CheckResult::Mismatch,
            CheckResult::NotFound | CheckResult::Failure => (),
        }
    }
    Err(stranger(device, target, &first.session, worst))
}

fn greet(device: &str, target: &Target, key_types: &str) -> Result<Login, TransportError> {
    let socket = dial(target).map_err(|e| {
        let why = format!("{}:{} does not answer: {e}", target.host, target.port);
        TransportError::unavailable(device, why, "Look whether it is on and its sshd runs")
    })?;
    let hello = || -> io::Result<Login> {
        let mut session = Session::new()?;
        session.set_timeout(QUICK_MS);
        session.method_pref(MethodType::HostKey, key_types)?;
        session.set_tcp_stream(socket.try_clone()?);
        session.handshake()?;
        Ok(Login { session, socket })
    };
    hello().map_err(|e| TransportError::lost(device, "greeting its sshd", e))
}

fn dial(target: &Target) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in (target.host.as_str(), target.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn check(device: &str, target: &Target, session: &Session) -> Result<CheckResult, TransportError> {
    let lost = |e: ssh2::Error| TransportError::lost(device, "checking its key", e);
    let known = read_known_hosts(session, target).map_err(lost)?;
    let (key, _) = session.host_key().ok_or_else(|| lost(ssh2::Error::unknown()))?;
    Ok(known.check_port(&target.key_name, target.port, key))
}

fn read_known_hosts(session: &Session, target: &Target) -> Result<KnownHosts, ssh2::Error> {
    let mut known = session.known_hosts()?;
    for file in &target.known_hosts {
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        for line in text.lines() {
            // Lines that libssh2 does not understand (markers, new key types) cannot make a host known.
            let _ = known.read_str(line, KnownHostFileKind::OpenSSH);
        }
    }
    Ok(known)
}

/// What to do about a host whose key is not on file, or another one is.
fn stranger(device: &str, target: &Target, session: &Session, result: CheckResult) -> TransportError {
    let file = target.known_hosts.first().map_or("~/.ssh/known_hosts".into(), |f| f.display().to_string());
    let kind = match session.host_key() {
        Some((_, HostKeyType::Rsa)) => "rsa",
        Some((_, HostKeyType::Ed25519)) => "ed25519",
        _ => "ecdsa",
    };
    let print = session.host_key_hash(HashType::Sha256).map_or_else(String::new, base64);
    let (host, port, name) = (&target.host, target.port, &target.key_name);
    let (why, next) = match result {
        CheckResult::Mismatch => (
            format!("its key is not the one on file for {name}: it shows {kind} SHA256:{print}"),
            format!(
                "Somebody may be in between. If the host was set up anew: ssh-keygen -R '[{name}]:{port}' -f {file}"
            ),
        ),
        _ => (
            format!("its key is not known: {kind} SHA256:{print}"),
            format!(
                "Compare it with `ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub` on the host, then: \
                 ssh-keyscan -t {kind} -p {port} {host} >> {file}"
            ),
        ),
    };
    TransportError::refused(device, "checking its key", why, next)
}

/// As OpenSSH prints fingerprints: without padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let sextet = |group: &[u8], i: usize| {
        let bits = group.iter().fold(0u32, |sum, &b| sum << 8 | u32::from(b)) << (8 * (3 - group.len()));
        char::from(ALPHABET[(bits >> (18 - 6 * i)) as usize & 63])
    };
    bytes.chunks(3).flat_map(|group| (0..=group.len()).map(move |i| sextet(group, i))).collect()
}

/// Offers the keys the ssh agent holds, then the identity files.
fn authenticate(session: &Session, target: &Target) -> Result<(), String> {
    if !target.identities_only && by_agent(session, &target.user).is_ok_and(|done| done) {
        return Ok(());
    }
    let files: Vec<_> = target.identities.iter().filter(|file| file.is_file()).collect();
    for file in &files {
        if session.userauth_pubkey_file(&target.user, None, file, None).is_ok() {
            return Ok(());
        }
    }
    let tried = files.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ");
    Err(format!(
        "neither the ssh agent nor an identity file without a passphrase was accepted (tried: {tried})"
    ))
}

fn by_agent(session: &Session, user: &str) -> Result<bool, ssh2::Error> {
    let mut agent = session.agent()?;
    agent.connect()?;
    agent.list_identities()?;
    Ok(agent.identities()?.iter().any(|identity| agent.userauth(user, identity).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_written_as_openssh_does() {
        let all = ["", "Zg", "Zm8", "Zm9v", "Zm9vYg"];
        for (bytes, text) in [&b""[..], b"f", b"fo", b"foo", b"foob"].into_iter().zip(all) {
            assert_eq!(base64(bytes), text);
        }
    }
}
