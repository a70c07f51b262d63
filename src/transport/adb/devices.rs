//! The device list of the adb server: what each state means and what to do about it.

use crate::transport::TransportError;

/// A device the adb server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its serial; `HOST:PORT` for devices on the network.
    pub serial: String,
    /// Its state.
    pub state: State,
    /// Model, where the server knows it.
    pub model: Option<String>,
}

/// State of a device, as adb says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Ready.
    Device,
    /// It waits for a person to allow debugging from this computer.
    Unauthorized,
    /// Known, but not answering.
    Offline,
    /// The host may not open the USB device.
    NoPermissions,
    /// On its way to being ready.
    Connecting,
    /// Running something other than Android: bootloader, recovery, sideload, rescue, ...
    Other(String),
}

impl State {
    fn parse(text: &str) -> State {
        match text {
            "device" => State::Device,
            "unauthorized" => State::Unauthorized,
            "offline" => State::Offline,
            "authorizing" | "connecting" => State::Connecting,
            other if other.starts_with("no permissions") => State::NoPermissions,
            other => State::Other(other.into()),
        }
    }

    /// What is the matter and what to do; `None` when the device is ready.
    pub fn problem(&self) -> Option<(String, &'static str)> {
        let (why, next): (&str, _) = match self {
            State::Device => return None,
            State::Unauthorized => (
                "it has not allowed debugging from this computer",
                "Unlock its screen, tick \"Always allow from this computer\" and confirm; then: adb devices",
            ),
            State::Offline => (
                "adb says it is offline",
                "Replug the cable or turn USB debugging off and on; then: adb reconnect offline",
            ),
            State::NoPermissions => (
                "this user may not open its USB device",
                "Install udev rules for it (on Debian: android-sdk-platform-tools-common), join the group plugdev, \
                 replug it; then: adb kill-server",
            ),
            State::Connecting => ("it is still connecting", "Wait a moment; then: adb devices"),
            State::Other(state) => {
                return Some((
                    format!("it is in state `{state}`"),
                    "Boot it into Android; then: adb devices",
                ));
            }
        };
        Some((why.into(), next))
    }
}

/// Reads the answer to `host:devices-l`: serial, state, `key:value` pairs. The state may have blanks.
pub(super) fn parse_list(text: &str) -> Vec<Listed> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Listed> {
    let (serial, rest) = line.split_once(char::is_whitespace)?;
    let rest = rest.trim();
    let is_pair = |word: &&str| {
        word.split_once(':').is_some_and(|(key, _)| {
            matches!(key, "usb" | "product" | "model" | "device" | "features" | "transport_id")
        })
    };
    let words = || rest.split_whitespace();
    let state: Vec<_> = words().take_while(|w| !is_pair(w)).collect();
    let model = words().find_map(|w| w.strip_prefix("model:")).map(Into::into);
    Some(Listed { serial: serial.into(), state: State::parse(&state.join(" ")), model })
}

/// The device meant by `wanted`, or by nothing when there is only one.
pub(super) fn choose(listed: &[Listed], wanted: Option<&str>) -> Result<String, TransportError> {
    let names = || listed.iter().map(|d| format!("adb:{}", d.serial)).collect::<Vec<_>>().join(", ");
    match (wanted, listed) {
        (Some(serial), _) => Ok(serial.into()),
        (None, [one]) => Ok(one.serial.clone()),
        (None, []) => {
            let next = "Plug it in and turn on USB debugging, or: adb connect HOST:PORT";
            Err(TransportError::unavailable("adb", "no device is connected", next))
        }
        (None, many) => Err(TransportError::refused(
            "adb",
            "choosing a device",
            format!("{} devices are connected", many.len()),
            format!("Name one with --device: {}", names()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "R5CT20 device usb:1-4 product:o1s model:SM_G991B device:o1s transport_id:3\n\
        0123 no permissions (user in plugdev group; are your udev rules wrong?); see [http://x/y] usb:1-2\n\
        127.0.0.1:5555         offline transport_id:9\n\
        A1\tunauthorized\nB2 recovery\n";

    #[test]
    fn states_are_read_and_each_says_what_to_do() {
        let list = parse_list(LIST);
        let states: Vec<_> = list.iter().map(|d| d.state.clone()).collect();
        let recovery = State::Other("recovery".into());
        use State::*;
        assert_eq!(states, [Device, NoPermissions, Offline, Unauthorized, recovery]);
        assert_eq!(list[0].model.as_deref(), Some("SM_G991B"));
        assert_eq!(list[2].serial, "127.0.0.1:5555");
        let next: std::collections::BTreeSet<_> =
            states.iter().filter_map(|s| s.problem()).map(|(why, next)| format!("{why} {next}")).collect();
        assert_eq!(next.len(), 4, "each its own: {next:?}");
    }

    #[test]
    fn a_device_is_only_chosen_when_there_is_no_choice() {
        let list = parse_list(LIST);
        assert_eq!(choose(&list, Some("x")).unwrap(), "x");
        assert_eq!(choose(&list[..1], None).unwrap(), "R5CT20");
        assert!(choose(&[], None).unwrap_err().may_pass());
        let many = choose(&list, None).unwrap_err().to_string();
        assert!(many.contains("adb:R5CT20, adb:0123"), "{many}");
    }
}
