//! A hostile agent against the host's receiving side: whatever it sends, the host ends with messages or an
//! error, never with a panic or a hang. `fuzz/` does the same with coverage.

#![allow(clippy::unwrap_used)] // these are tests

use opptune::protocol::{Link, MAX_FRAME_BYTES, ToAgent, ToHost};
use opptune::transport::AgentLog;
use proptest::prelude::*;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// Feeds bytes to the host in pieces. How many messages it took, and what ended it.
fn received(bytes: &[u8], piece: usize) -> (usize, Option<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (mut agent, host) = tokio::io::duplex(piece);
        let (mut reader, writer) = Link::<ToHost, ToAgent>::new(Box::new(host), "agent").split();
        let send = async {
            // A host that has hung up does not hear the rest.
            let _ = agent.write_all(bytes).await;
            drop(agent);
        };
        let receive = async {
            let mut count = 0;
            loop {
                match reader.receive().await {
                    Ok(Some(_)) => count += 1,
                    end => {
                        drop((reader, writer));
                        return (count, end.err().map(|e| e.to_string()));
                    }
                }
            }
        };
        let both = async { tokio::join!(send, receive).1 };
        tokio::time::timeout(Duration::from_secs(20), both).await.unwrap()
    })
}

fn frame(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat()
}

/// Frames whose lengths are right and whose contents are nearly so.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let honest = prop_oneof![
        Just(r#"{"say":"pong","seq":7}"#.to_owned()),
        Just(r#"{"say":"bye","restored":1,"differs":["a"],"took_ms":2}"#.to_owned()),
        Just(r#"{"say":"probed","x":[1.5,null,{"y":"\u0000"}]}"#.to_owned()),
        Just(r#"{"say":"failed","class":"gate","what":"a","state":"b","next":"c"}"#.to_owned()),
    ];
    (honest, proptest::option::of((any::<prop::sample::Index>(), any::<u8>()))).prop_map(|(text, change)| {
        let mut body = text.into_bytes();
        if let Some((at, byte)) = change {
            let at = at.index(body.len());
            body[at] = byte;
        }
        frame(&body)
    })
}

proptest! {
    #[test]
    fn any_bytes_end_the_conversation(bytes in prop::collection::vec(any::<u8>(), 0..4096), piece in 1usize..600) {
        let (count, end) = received(&bytes, piece);
        prop_assert!(count * 5 <= bytes.len());
        prop_assert!(end.is_some() || bytes.is_empty() || count > 0);
    }

    #[test]
    fn nearly_honest_frames_are_taken_or_refused(frames in prop::collection::vec(nearly(), 0..20), piece in 1usize..600) {
        let (count, end) = received(&frames.concat(), piece);
        prop_assert_eq!(count == frames.len(), end.is_none());
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_it_is_read(extra in 1u32..1 << 30) {
        let length = MAX_FRAME_BYTES as u32 + extra;
        let (count, end) = received(&[&length.to_be_bytes()[..], &[0; 64]].concat(), 600);
        prop_assert!(count == 0 && end.unwrap().contains("frame size"));
    }

    #[test]
    fn what_the_agent_says_besides_stays_small_and_harmless(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2048), 0..64)) {
        let log = AgentLog::default();
        pieces.iter().for_each(|piece| log.add(piece));
        let text = log.text();
        prop_assert!(text.len() <= 64 << 10);
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let body = [&br#"{"say":"probed","x":"#[..], &vec![b'['; MAX_FRAME_BYTES / 2]].concat();
    let (count, end) = received(&frame(&body), 64 << 10);
    assert!(count == 0 && end.unwrap().contains("recursion limit"));
}
