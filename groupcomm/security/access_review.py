"""A review of access rules: the requests that they make impossible, perhaps by mistake, and the
past that they open.

Pure. No finding is an error, as such rules can be intended. Patterns are compared as sets of the
texts that they match.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from groupcomm.security.access import Access, Rule, Verb, is_a_name_for, normal

_GROUP_VERBS: Final = (Verb.JOIN, Verb.SEND)
"""The verbs without which a group is useless; without SEE_MEMBERS it is not."""

_ANY: Final = "*"


def review(access: Access, arrivals: Sequence[str], owners: Sequence[str]) -> list[str]:
    """Return a sentence for each thing that rules make impossible.

    Args:
        access: the rules; without any, nothing is impossible.
        arrivals: patterns of the principals that programs can have at this daemon.
        owners: the principals that have ADMIN without a rule.
    """
    if not access.rules:
        return []
    numbered = list(enumerate(access.rules, 1))
    reached = [(number, rule) for number, rule in numbered if _is_reached(rule, arrivals)]
    found = [
        f"rule {number} is never reached: no program comes in as {_list(rule.who)}; they come in as"
        f" {_list(arrivals)}"
        for number, rule in numbered
        if not _is_reached(rule, arrivals)
    ]
    for number, rule in reached:
        found += _review_verbs(number, rule)
    for number, rule in reached:
        found += _review_repetition(number, rule, reached)
    found += _review_groups(reached)
    if not any(rule.verbs - {Verb.ADMIN} for _, rule in reached):
        found.append(
            "no program may do anything: no rule that is reached allows join, send or unicast"
        )
    if not _may_anybody_admin([rule for _, rule in reached], owners):
        found.append(
            "nobody may admin: status, groups and top are refused to everybody, as rules take it"
            " from the daemon's own user and root, and give it to nobody else"
        )
    return [f"access: {sentence}" for sentence in found]


def opened(access: Access) -> list[str]:
    """Return a sentence for each rule that opens the past of groups, and one if there is no rule.

    Args:
        access: the rules.
    """
    if not access.rules:
        return [
            "access: without a rule every program that connects may join and send to every group,"
            " and read its history from archives"
        ]
    verb = access.needed_for_history
    why = "" if verb is Verb.READ_HISTORY else ", and no rule mentions read-history"
    return [
        f"access: {_list(rule.who)} may read the history of {_list(rule.groups)} from archives:"
        f" rule {number} allows {verb.word}{why}"
        for number, rule in enumerate(access.rules, 1)
        if verb in rule.verbs
    ]


def _list(patterns: Iterable[str]) -> str:
    return " or ".join(repr(pattern) for pattern in patterns)


def _is_reached(rule: Rule, arrivals: Sequence[str]) -> bool:
    return any(meet(who, arrival) for who in rule.who for arrival in arrivals)


# ---- one rule ----


def _review_verbs(number: int, rule: Rule) -> Iterable[str]:
    """Yield a sentence for each verb for which the rule names no possible group or private name."""
    for verb in sorted(rule.verbs - {Verb.ADMIN}):
        if not any(_can_name(pattern, verb) for pattern in rule.groups):
            what = "private name (#USER#DAEMON)" if verb is Verb.UNICAST else "group"
            yield (
                f"rule {number} allows {verb.word} for nothing: {_list(rule.groups)} matches no"
                f" {what}"
            )


def _can_name(pattern: str, verb: Verb) -> bool:
    """Return whether a pattern matches any name that is valid for a verb."""
    if _ANY not in pattern:
        return is_a_name_for(verb, pattern)
    if pattern.startswith(_ANY):
        return True
    return pattern.startswith("#") == (verb is Verb.UNICAST)


def _review_repetition(
    number: int, rule: Rule, reached: Sequence[tuple[int, Rule]]
) -> Iterable[str]:
    """Yield a sentence if another rule allows everything that this one does."""
    for other, wider in reached:
        same = _allows_all(rule, wider)
        if other != number and _allows_all(wider, rule) and (other < number or not same):
            yield f"rule {number} changes nothing: rule {other} allows all that it does"
            return


def _allows_all(wider: Rule, rule: Rule) -> bool:
    """Return whether a rule allows all that another one allows, so that the other is needless."""
    if not rule.verbs or rule.names or rule.taken:
        return False
    groups = rule.verbs == {Verb.ADMIN} or _contain(wider.groups, rule.groups)
    return rule.verbs <= wider.verbs and _contain(wider.who, rule.who) and groups


def _contain(wider: Sequence[str], patterns: Sequence[str]) -> bool:
    return all(any(contains(wide, pattern) for wide in wider) for pattern in patterns)


# ---- all rules ----


def _review_groups(reached: Sequence[tuple[int, Rule]]) -> Iterable[str]:
    """Yield a sentence for each pattern of groups that nobody may join, or send to."""
    seen: set[tuple[str, Verb]] = set()
    for number, rule in reached:
        allowed = sorted(rule.verbs - {Verb.ADMIN, Verb.UNICAST})
        for pattern in rule.groups if allowed else ():
            for verb in _GROUP_VERBS:
                usable = _can_name(pattern, Verb.JOIN) and (pattern, verb) not in seen
                seen.add((pattern, verb))
                if usable and not _is_allowed_somewhere(verb, pattern, reached):
                    yield (
                        f"nobody may {_phrase(verb)} {pattern!r}: rule {number} allows"
                        f" {' and '.join(each.word for each in allowed)} there, and no rule allows"
                        f" {verb.word}"
                    )


def _is_allowed_somewhere(verb: Verb, pattern: str, reached: Sequence[tuple[int, Rule]]) -> bool:
    return any(
        verb in rule.verbs
        and any(_can_name(group, verb) and meet(pattern, group) for group in rule.groups)
        for _, rule in reached
    )


def _phrase(verb: Verb) -> str:
    return "send to" if verb is Verb.SEND else verb.word


def _may_anybody_admin(rules: Sequence[Rule], owners: Sequence[str]) -> bool:
    taken = [who for rule in rules if Verb.ADMIN in rule.taken for who in rule.who]
    given = [who for rule in rules if Verb.ADMIN in rule.verbs for who in rule.who]
    return any(not _contain(taken, [who]) for who in (*given, *owners))


# ---- patterns ----


def meet(one: str, other: str) -> bool:
    """Return whether any text matches both patterns."""
    one, other = normal(one), normal(other)
    seen, todo = {(0, 0)}, [(0, 0)]
    while todo:
        i, j = todo.pop()
        a, b = one[i : i + 1], other[j : j + 1]
        if not a and not b:
            return True
        steps = []
        if a == _ANY:
            steps += [(i + 1, j)] + ([(i, j + 1)] if b else [])
        if b == _ANY:
            steps += [(i, j + 1)] + ([(i + 1, j)] if a else [])
        if a and a == b:
            steps.append((i + 1, j + 1))
        todo += [step for step in steps if step not in seen]
        seen.update(steps)
    return False


def contains(wide: str, pattern: str) -> bool:
    """Return whether every text that matches a pattern also matches a wider one."""
    wide, pattern = normal(wide), normal(pattern)
    seen, todo = {(0, 0)}, [(0, 0)]
    while todo:
        i, j = todo.pop()
        a, b = wide[i : i + 1], pattern[j : j + 1]
        if not a and not b:
            return True
        steps = []
        if a == _ANY:
            steps += [(i + 1, j)] + ([(i, j + 1)] if b else [])
        elif a and a == b:
            steps.append((i + 1, j + 1))
        todo += [step for step in steps if step not in seen]
        seen.update(steps)
    return False
