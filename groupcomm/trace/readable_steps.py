"""Steps of algorithms and filters as lines for people."""

from collections.abc import Iterable

from groupcomm.trace.steps import (
    AlgorithmStep,
    Buffered,
    Concurrent,
    Counted,
    Given,
    MemberAdded,
    MemberDropped,
    MessageId,
    PassedThrough,
    PathCopied,
    StampedReceived,
    StampedSent,
    SuccessorFound,
    Taken,
    VectorCreated,
)


def readable_step(event: AlgorithmStep) -> str:
    """What the process does."""
    match event:
        case VectorCreated(clock=clock):
            counts = ", ".join(f"{name} {count}" for name, count in clock.items())
            return f"creates its vector: {counts or 'nobody'}"
        case MemberAdded(name=name, count=count):
            return f"counts {name} from {count} on"
        case MemberDropped(name=name):
            return f"counts {name} no more"
        case Counted(count=count):
            return f"raises its own count to {count}"
        case PassedThrough(what=what):
            return f"passes {what} through"
    return _of_message(event, f"{event.s}:{event.m}")


def _of_message(event: AlgorithmStep, message: str) -> str:
    match event:
        case StampedSent(to=to, stamp=stamp, bytes=size):
            text = f"sends {message} to {', '.join(to) or 'nobody'}"
            return f"{text}, stamped {stamp} ({size} bytes)" if stamp else text
        case StampedReceived(source=source):
            return f"receives {message} from {source}"
        case Concurrent():
            return f"finds {message} concurrent with what it has"
        case Buffered(waits=waits):
            return f"buffers {message}" + (f", which waits for {_listed(waits)}" if waits else "")
        case SuccessorFound():
            return f"finds {message} to be a successor"
        case Taken():
            return f"takes {message} out of the buffer"
        case Given():
            return f"delivers {message}"
        case PathCopied(paths=paths):
            return f"copies clock and buffer for {message}: {paths} paths now"
    raise AssertionError(event)


def _listed(messages: Iterable[MessageId]) -> str:
    return ", ".join(f"{sender}:{number}" for sender, number in messages)
