#!/usr/bin/env python3
"""Breaks the link to the virtual phone, the phone and the host in the middle of real sweeps, and prints a table.

usage: faults.py [--list] [--keep DIR] [FAULT...]       all faults: about a quarter of an hour

Needs a phone (phone.sh up), target/debug/opptune (OPPTUNE names another) and target/agent/opptune-agent-aarch64
(OPPTUNE_AGENT). A fault comes while a trial is in flight and the nodes are pinned. Then, from the journal: every trial
that was begun has its answer, none was measured twice, only the one in flight was run again, and it says so; and
from a watcher inside the phone: how long the nodes stayed changed. Exit code 1 when any of this does not hold.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OPPTUNE = os.environ.get("OPPTUNE", str(ROOT / "target/debug/opptune"))
AGENT = os.environ.get("OPPTUNE_AGENT", str(ROOT / "target/agent/opptune-agent-aarch64"))
LEASE = 15
DEADLINE = 300
CONFIG = """schema = 1
name = "{name}"
device = {{ profile = "virtual-phone" }}
engine = {{ kind = "spin", threads = 1 }}
settings = {{ decode = [8], prefill = [], decode-prompt = 8 }}
search = {{ strategy = "exhaustive", budget = {{ absolute = 1e9 }}, max-inferences = 5 }}
measure = {{ repeats = 1, baseline-repeats = 1, min-window-ms = 3000, min-updates = 2, max-passes = 200 }}
retry = {{ lease-ms = {lease}, on-reboot = "{on_reboot}" }}
"""
# Says on the share what the nodes are, whenever that changes. It leaves adbd's control group, and outlives ssh.
WATCH = """echo $$ >/sys/fs/cgroup/cgroup.procs; trap '' HUP
nodes() { cat /sys/devices/system/cpu/cpufreq/policy*/scaling_m??_freq /sys/class/devfreq/*/m??_freq | tr '\\n' ' '; }
was=; while [ -e /data/share/watch ]; do now=$(nodes); [ "$now" = "$was" ] || echo "$now" >>/data/share/watch
was=$now; usleep 100000; done"""


def lab(script, *words, check=True):
    done = subprocess.run([HERE / script, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"faults: {script} {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def phone(*words, check=True):
    return lab("phone.sh", *words, check=check)


def wait_until(what, holds, limit=DEADLINE):
    end = time.monotonic() + limit
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {limit} s: {what}")
        time.sleep(0.05)


class Watcher:
    """The nodes as the phone sees them, with this machine's time."""

    def __init__(self, share):
        self.file = share / "watch"
        self.seen = []
        self.open = True
        self.start()
        wait_until("the phone shows its nodes", lambda: self.seen)
        self.originals = self.seen[0][1]
        self.file.chmod(0o666)

    def start(self):
        self.file.write_text("")
        self.ssh = subprocess.Popen([HERE / "phone.sh", "ssh", "setsid sh -s >/dev/null 2>&1"], stdin=subprocess.PIPE,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.ssh.stdin.write(WATCH.encode())
        self.ssh.stdin.close()
        threading.Thread(target=self.tail, daemon=True).start()

    def tail(self):
        with self.file.open() as text:
            while self.open:
                line = text.readline()
                if line.endswith("\n"):
                    self.seen.append((time.monotonic(), line))
                else:
                    time.sleep(0.02)

    def pinned(self):
        return self.seen[-1][1] != self.originals

    def restored_after(self, moment):
        """Seconds from `moment` until the nodes were as in the beginning."""
        return next((at - moment for at, nodes in self.seen if at > moment and nodes == self.originals), None)

    def close(self):
        self.open = False
        self.file.unlink(missing_ok=True)
        # After a reset of the phone its end of the connection is gone without a word.
        self.ssh.kill()
        self.ssh.wait()


class Sweep:
    """A sweep, and a resume of it if need be."""

    def __init__(self, name, link, environment, on_reboot="continue"):
        self.dir = Path(tempfile.mkdtemp(prefix=f"opptune-{name}-"))
        config = self.dir / "sweep.toml"
        config.write_text(CONFIG.format(name=name, lease=LEASE * 1000, on_reboot=on_reboot))
        self.environment, self.link = environment, link
        self.launch("sweep", str(config), "--device", link, "--results", str(self.dir / "results"))

    def launch(self, *words):
        with (self.dir / "log").open("a") as log:
            self.process = subprocess.Popen([OPPTUNE, *words, "--agent", AGENT], cwd=ROOT, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=os.environ | self.environment)

    def run(self):
        return next((self.dir / "results").glob("*/journal.jsonl")).parent

    def events(self):
        journal = next((self.dir / "results").glob("*/journal.jsonl"), None)
        lines = journal.read_text().splitlines(keepends=True) if journal else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def in_flight(self):
        """A search trial runs, and one was finished before."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the sweep ended early: {(self.dir / 'log').read_text()[-600:]}")
        events = self.events()
        searches = [e for e in events if e["event"] == "finished" and e["measurement"]["id"]["purpose"] == "search"]
        return bool(searches) and events[-1]["event"] == "started"

    def resume(self):
        self.launch("resume", str(self.run()))

    def end(self):
        return self.process.wait(DEADLINE)


def key(trial):
    return json.dumps(trial, sort_keys=True)


def audit(events):
    """What is wrong with a journal after a fault, and the trials that were run again."""
    wrong, begun, answered, cut, flight = [], {}, {}, set(), None
    if [e["seq"] for e in events] != list(range(len(events))):
        wrong.append("the journal has gaps")
    for event in events:
        kind = event["event"]
        if kind == "started":
            flight = key(event["id"])
            begun[flight] = begun.get(flight, 0) + 1
        elif kind in ("finished", "failed"):
            trial = key(event["measurement"]["id"] if kind == "finished" else event["id"])
            if trial in answered:
                wrong.append(f"two answers to {trial}")
            if kind == "finished" or event["given_up"]:
                answered[trial] = event
            flight = None
        elif kind in ("link-lost", "opened") and flight:
            cut.add(flight)
            flight = None
    again = {trial for trial, times in begun.items() if times > 1}
    wrong += [f"begun and lost: {trial}" for trial in begun if trial not in answered]
    wrong += [f"run again without a reason: {trial}" for trial in again - cut]
    wrong += [f"not flagged: {trial}" for trial in again & answered.keys() if not flagged(answered[trial])]
    return wrong, again


def flagged(answer):
    flags = answer.get("measurement", {}).get("flags", [])
    return answer["event"] == "failed" or {"flag": "repeated-after-link-loss"} in flags


def said(events):
    """What the tool made of the fault, in its own words."""
    words = {"link-lost": lambda e: e["why"], "interrupted": lambda e: e["why"], "rebooted": lambda e: "rebooted",
             "opened": lambda e: "taken again"}
    texts = [words[e["event"]](e) for e in events if e["event"] in words]
    return "; ".join(text.splitlines()[0][:90] for text in texts) or "nothing: no longer than the lease"


class Fault:
    """One way to break things: `strike` does it. A sweep that it ends, with `code`, is resumed."""

    def __init__(self, link, strike, code=0, on_reboot="continue", proxy=None):
        self.link, self.strike, self.code, self.on_reboot, self.proxy = link, strike, code, on_reboot, proxy


def pause(seconds):
    def strike(_):
        phone("pause")
        time.sleep(seconds)
        phone("cont")
    return strike


def kill_host(sweep):
    sweep.process.send_signal(signal.SIGKILL)
    sweep.process.wait()


def kill_sshd(_):
    phone("adb", "shell", "killall -9 dropbear")
    phone("adb", "shell", "echo $$ >/sys/fs/cgroup/cgroup.procs; dropbear -E -s -r /etc/dropbear/host_key </dev/null >/dev/null 2>&1")


def stall(port):
    def strike(_):
        lab("cut.sh", "stall", port)
        time.sleep(2 * LEASE)
        lab("cut.sh", "resume", port)
    return strike


def faults(environment):
    adb, ssh = int(environment["ADB_SERIAL"].rsplit(":", 1)[1]), int(environment["SSH_PORT"])
    wire, direct = f"adb:127.0.0.1:{adb + 1000}", f"adb:{environment['ADB_SERIAL']}"
    cut = lambda port: lambda _: lab("cut.sh", "cut", port)
    hard = lambda _: phone("reboot", "hard")
    return {
        "adbd killed": Fault(direct, lambda _: phone("adbd-kill")),
        "adb link cut": Fault(wire, cut(adb + 1000), proxy=(adb + 1000, adb)),
        "adb link stalled 30 s": Fault(wire, stall(adb + 1000), proxy=(adb + 1000, adb)),
        "sshd killed": Fault("ssh:vphone", kill_sshd),
        "ssh link cut": Fault("ssh:vphone-cut", cut(ssh + 1000), proxy=(ssh + 1000, ssh)),
        "ssh link stalled 30 s": Fault("ssh:vphone-cut", stall(ssh + 1000), proxy=(ssh + 1000, ssh)),
        "phone paused 10 s": Fault(direct, pause(10)),
        "phone paused 40 s": Fault(direct, pause(40)),
        "phone reset, on-reboot continue": Fault(direct, hard),
        "phone reset, on-reboot stop": Fault(direct, hard, code=6, on_reboot="stop"),
        "host killed, resumed": Fault(direct, kill_host, code=-signal.SIGKILL),
    }


def ssh_config(directory, environment):
    host = "Host {name}\n HostName 127.0.0.1\n Port {port}\n User root\n IdentityFile {SSH_KEY}\n" \
        " UserKnownHostsFile {SSH_KNOWN_HOSTS}\n HostKeyAlias [127.0.0.1]:{SSH_PORT}\n"
    port = int(environment["SSH_PORT"])
    file = Path(directory) / "ssh_config"
    file.write_text(host.format(name="vphone", port=port, **environment)
                    + host.format(name="vphone-cut", port=port + 1000, **environment))
    return str(file)


def suffer(name, fault, environment):
    """One row: what happened, and what is wrong with it. Times are from the moment the fault was asked for."""
    watcher = Watcher(Path(environment["PHONE_SHARE"]))
    if fault.proxy:
        lab("cut.sh", "up", *fault.proxy)
    sweep = Sweep("fault-" + "".join(c if c.isalnum() else "-" for c in name), fault.link, environment, fault.on_reboot)
    try:
        wait_until("a trial is in flight", lambda: sweep.in_flight() and watcher.pinned())
        before, moment = len(sweep.events()), time.monotonic()
        fault.strike(sweep)
        struck = time.monotonic() - moment
        code = sweep.end()
        ended = [f"exit {code}, not {fault.code}"] if code != fault.code else []
        if fault.code:
            sweep.resume()
            code = sweep.end()
            ended += [f"resume: exit {code}"] if code else []
        wrong, again = audit(sweep.events())
        return row(name, sweep, watcher, before, moment, struck, ended + wrong, again)
    finally:
        if sweep.process.poll() is None:
            sweep.process.send_signal(signal.SIGINT)
            sweep.process.wait(60)
        watcher.close()
        if fault.proxy:
            lab("cut.sh", "down", fault.proxy[0])


def went_on(sweep, before):
    """Seconds from the last event before the fault until the device was taken again; nothing if it was held throughout."""
    events = sweep.events()
    at = lambda e: datetime.fromisoformat(e["at"][:26] + "+00:00")
    again = next((e for e in events[before:] if e["event"] == "opened"), None)
    return f"{(at(again) - at(events[before - 1])).total_seconds():.0f} s" if again else "-"


def row(name, sweep, watcher, before, moment, struck, wrong, again):
    events = sweep.events()
    nodes = phone("ssh", "cat /sys/devices/system/cpu/cpufreq/policy*/scaling_m??_freq /sys/class/devfreq/*/m??_freq | tr '\\n' ' '")
    wrong += [] if nodes.strip() == watcher.originals.strip() else [f"nodes are {nodes}"]
    wrong += [] if events[-1]["event"] == "completed" else [f"ends with {events[-1]['event']}"]
    back = watcher.restored_after(moment)
    finished = sum(e["event"] == "finished" for e in events)
    return {"fault": name, "lasted": f"{struck:.0f} s", "the tool said": said(events[before:]),
            "taken again after": went_on(sweep, before),
            "put back after": "by the reboot" if "reset" in name else "never" if back is None else f"{back:.1f} s",
            "trials": f"{finished} done, {len(again)} run again", "verdict": "; ".join(wrong) or "ok",
            "dir": sweep.dir}


def main():
    words = sys.argv[1:]
    if "-h" in words or "--help" in words:
        print(__doc__)
        return 0
    said_by_lab = phone("env")
    environment = dict(line.split("=", 1) for line in said_by_lab.splitlines())
    known = faults(environment)
    if "--list" in words:
        print("\n".join(known))
        return 0
    keep = Path(words.pop(words.index("--keep") + 1)) if "--keep" in words else None
    wanted = [word for word in words if word != "--keep"] or list(known)
    bad = 0
    print("| fault | it lasted | the tool said | taken again after | nodes put back after | trials | verdict |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        environment["OPPTUNE_SSH_CONFIG"] = ssh_config(scratch, environment)
        for name in wanted:
            try:
                result = suffer(name, known[name], environment)
            except (RuntimeError, TimeoutError, subprocess.TimeoutExpired) as error:
                bad += 1
                print(f"| {name} | | | | | | {str(error).splitlines()[0]} |", flush=True)
                continue
            directory = result.pop("dir")
            bad += result["verdict"] != "ok"
            print("| " + " | ".join(result.values()) + " |", flush=True)
            if keep:
                shutil.move(directory, keep / directory.name)
            elif result["verdict"] == "ok":
                shutil.rmtree(directory)
            else:
                print(f"faults: see {directory}", file=sys.stderr)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
