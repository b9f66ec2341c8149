"""The words that describe a fault, one table for the command line, scenarios and documents. Reads none."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """One word: what is written behind it, and what it means. A `flag` stands alone (or is `true`)."""

    name: str
    metavar: str
    help: str
    flag: bool = False


KIND_WORDS = (
    Word("drop", "RATE", "Drop a share of packets at random: 1%, 0.5%, 50bp; 0% removes it."),
    Word("gemodel", "P=RATE,R=RATE", "Drop in bursts (Gilbert-Elliott): p=1%,r=10%[,bad=100%][,good=0%]."),
    Word("one-in", "N", "Drop every Nth packet; 0 removes it."),
    Word("black-hole", "HOST", "Drop everything to one host."),
    Word("hang", "", "Let the switch stay up and forward nothing.", flag=True),
    Word("corrupt", "RATE", "Flip one bit in a share of packets."),
    Word("duplicate", "RATE", "Send a share of packets twice."),
    Word("reorder", "RATE", "Let a share of packets overtake others; with --ahead."),
    Word("delay", "TIME", "Delay every packet: 10ms; with --jitter and --distribution."),
    Word("rate", "BITRATE", "Slow the link down: 10Mbit; with --queue."),
    Word("down", "", "Shut the port, or both ports of a link without direction.", flag=True),
    Word("flap", "PERIOD=TIME", "Shut and open: period=2s[,duty=50%][,count=N][,jitter=100ms]."),
    Word("reboot", "TIME", "Switch off the switch for this long; it returns with its static table."),
    Word("crash", "", "Shut all ports of the switch until the fault is cleared.", flag=True),
)
"""Each makes one fault; several in one order compose."""

ONLY_WORDS = (
    Word("only-control", "", "Only SACKs, NACKs and transport ACKs.", flag=True),
    Word("only-qp", "QPN", "Only packets to this queue pair."),
    Word("only-ev", "EV[/MASK]", "Only packets that carry this entropy value."),
    Word("only-dscp", "CLASS", "Only packets of this class: a number or a name such as CONTROL."),
    Word("only-size", "BYTES", "Only frames of these lengths: 100-300, 1000-, -200."),
    Word("only-to", "HOST", "Only packets to this host."),
    Word("only-first", "", "Only writes that are not retransmissions.", flag=True),
    Word("only-last", "K", "Only the last K packets of a message."),
)
"""Which packets drop, gemodel, one-in, corrupt and duplicate look at."""

DETAIL_WORDS = (
    Word("jitter", "TIME", "Spread of the delay."),
    Word("distribution", "NAME", "Distribution of the delay: uniform, normal, pareto or paretonormal."),
    Word("ahead", "TIME", "Delay that reordered packets skip."),
    Word("queue", "BYTES", "Queue of the rate limit, in bytes; 50 ms worth when left out."),
)

TIMING_WORDS = (
    Word("at", "TIME", "Start this long after the event."),
    Word("for", "TIME", "Clear after this long."),
    Word("every", "TIME", "Set again after each such period; needs --for."),
    Word("times", "N", "Number of repetitions with --every; endless when left out."),
    Word("until", "EVENT", "Clear the fault on this event (only `detected`)."),
    Word("on", "EVENT", "Event that --at counts from: traffic or detected."),
)

WORDS = (*KIND_WORDS, *ONLY_WORDS, *DETAIL_WORDS, *TIMING_WORDS)
