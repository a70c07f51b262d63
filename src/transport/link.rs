//! How a person names a link: `local`, `adb`, `adb:SERIAL`, `ssh:[USER@]HOST[:PORT]`.

use std::fmt;

/// A link, as named in a configuration or on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkSpec {
    /// This machine.
    Local,
    /// Through the adb server.
    Adb {
        /// The device; `None`: the only one there is.
        serial: Option<String>,
    },
    /// Over ssh. What is not given comes from the user's ssh configuration.
    Ssh {
        /// Who to log in as.
        user: Option<String>,
        /// Host name, address, or alias of the ssh configuration.
        host: String,
        /// The port.
        port: Option<u16>,
    },
}

/// A link that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{link}` is not a link: {why}. Give `local`, `adb`, `adb:SERIAL` (see `adb devices`) or `ssh:[USER@]HOST[:PORT]`"
)]
pub struct LinkError {
    link: String,
    why: &'static str,
}

/// Reads a link.
///
/// # Errors
/// [`LinkError`] when the kind is not known or a part has characters that cannot be in it.
pub fn parse_link(link: &str) -> Result<LinkSpec, LinkError> {
    let (kind, rest) = link.split_once(':').map_or((link, None), |(kind, rest)| (kind, Some(rest)));
    match (kind, rest) {
        ("local", None) => Ok(LinkSpec::Local),
        ("adb", None) => Ok(LinkSpec::Adb { serial: None }),
        ("adb", Some(serial)) if is_name(serial) => Ok(LinkSpec::Adb { serial: Some(serial.into()) }),
        ("adb", Some(_)) => Err("a serial has letters, digits and `._:-[]` only"),
        ("ssh", Some(place)) => parse_ssh(place),
        ("ssh", None) => Err("the host is missing"),
        _ => Err("its kind is not known"),
    }
    .map_err(|why| LinkError { link: link.into(), why })
}

fn parse_ssh(place: &str) -> Result<LinkSpec, &'static str> {
    let (user, place) = place.rsplit_once('@').map_or((None, place), |(user, rest)| (Some(user), rest));
    let (host, port) = split_port(place)?;
    if !is_name(host) || !user.is_none_or(is_name) {
        return Err("a user or host has letters, digits and `._:-` only and does not start with `-`");
    }
    Ok(LinkSpec::Ssh { user: user.map(Into::into), host: host.into(), port })
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`, or a bare v6 address.
fn split_port(place: &str) -> Result<(&str, Option<u16>), &'static str> {
    let bad_port = "the port is not a number from 1 to 65535";
    let port = |text: &str| text.parse().ok().filter(|&p: &u16| p > 0).ok_or(bad_port);
    if let Some(rest) = place.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("`[` is not closed")?;
        return match after.strip_prefix(':') {
            Some(text) => Ok((host, Some(port(text)?))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(bad_port),
        };
    }
    match place.split_once(':') {
        Some((host, text)) if !text.contains(':') => Ok((host, Some(port(text)?))),
        _ => Ok((place, None)),
    }
}

/// What is in serials, users and hosts; nothing that a shell, an option parser or a protocol could misread.
fn is_name(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && !text.starts_with('-')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._:-[]%".contains(c))
}

impl fmt::Display for LinkSpec {
    /// As it is typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkSpec::Local => write!(f, "local"),
            LinkSpec::Adb { serial: None } => write!(f, "adb"),
            LinkSpec::Adb { serial: Some(serial) } => write!(f, "adb:{serial}"),
            LinkSpec::Ssh { user, host, port } => {
                let user = user.as_ref().map(|u| format!("{u}@")).unwrap_or_default();
                match port {
                    Some(port) if host.contains(':') => write!(f, "ssh:{user}[{host}]:{port}"),
                    Some(port) => write!(f, "ssh:{user}{host}:{port}"),
                    None => write!(f, "ssh:{user}{host}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_read_back_as_they_are_typed() {
        let all =
            ["local", "adb", "adb:R5CT", "adb:10.0.0.2:5555", "ssh:board", "ssh:me@board:22", "ssh:::1"];
        for text in all.into_iter().chain(["ssh:me@[fe80::1]:2222", "adb:adb-123._adb-tls-connect._tcp"]) {
            assert_eq!(parse_link(text).unwrap().to_string(), text);
        }
        let link = parse_link("ssh:me@[fe80::1]:2222").unwrap();
        let (user, host) = (Some("me".into()), "fe80::1".into());
        assert_eq!(link, LinkSpec::Ssh { user, host, port: Some(2222) });
    }

    #[test]
    fn what_could_be_misread_is_refused() {
        for text in
            ["", "usb", "local:1", "adb:", "adb:a b", "adb:a\nb", "ssh", "ssh:", "ssh:h:0", "ssh:h:99999"]
        {
            assert!(parse_link(text).is_err(), "{text}");
        }
        for text in ["ssh:-oProxyCommand=x", "ssh:a;b", "ssh:$(x)@h", "ssh:[::1", "ssh:[::1]x"] {
            let error = parse_link(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("Give `local`"), "{error}");
        }
    }
}
