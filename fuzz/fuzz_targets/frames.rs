//! A hostile agent: any bytes at all, fed to the host's receiving side.
//!
//!     mkdir -p fuzz/corpus/frames
//!     cargo +nightly fuzz run frames fuzz/corpus/frames fuzz/seeds/frames -- -max_total_time=600 \
//!         -rss_limit_mb=512 -malloc_limit_mb=64 -max_len=65536
//!
//! It must end in a message, an error or the end of the stream: no panic, no hang, and (by the limits above) no
//! memory that grows with what the agent sends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use opptune::protocol::{Link, ToAgent, ToHost};
use tokio::io::AsyncWriteExt;

/// Small, so that frames come in pieces.
const PIPE_BYTES: usize = 512;

fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut agent, host) = tokio::io::duplex(PIPE_BYTES);
        let link: Link<ToHost, ToAgent> = Link::new(Box::new(host), "agent");
        let (mut reader, writer) = link.split();
        let send = async {
            // A host that has hung up on the agent does not hear the rest.
            let _ = agent.write_all(bytes).await;
            drop(agent);
        };
        let receive = async {
            while let Ok(Some(message)) = reader.receive().await {
                std::hint::black_box(message);
            }
            drop((reader, writer));
        };
        tokio::join!(send, receive);
    });
});
