"""The words of a report, for readers who do not train models."""

from __future__ import annotations

from pfedul.report.blocks import FactList, Section

_WORDS = {
    "client": "A participant of the federation: a hospital, a phone, a branch office.",
    "target": "The client who asked to be forgotten.",
    "shared, personal": "The part of a model that all build together; the part that is each one's "
    "own.",
    "oracle": "A model trained again from the start without the target: what perfect forgetting "
    "looks like. Two oracles differ by chance, so several are needed to see how much chance does.",
    "candidate": "The model after the removal, the one that is judged.",
    "untouched": "The model before the removal. If it gives nothing away, there is nothing to "
    "forget.",
    "member, non-member": "A sample that the target trained with; one of the same kind that nobody "
    "trained with.",
    "membership attack": "An attempt to recognise members by how the model answers. Success means "
    "that the model still remembers.",
    "AUC": "How well an attack separates members from non-members: 0.5 is a coin toss, 1 is always "
    "right. Well below 0.5 is a trace, too: turned around, it reveals just as much.",
    "surface": "A place from which an attacker can look: a remaining client's model, the head that "
    "the target took with it (stale), a new head on shared features (probe), the shared model.",
    "interval": "The range in which the true figure lies, with 95 % confidence unless said "
    "otherwise. The verdict compares intervals, never single figures.",
    "spread": "How far one oracle is from the others, by chance alone.",
    "smallest visible leak": "A smaller leak than this could be there and the test would miss it.",
    "ROC curve": "For each rate of false alarms that an attacker accepts, the share of members "
    "found.",
    "relearn time": "How fast the model learns the target's samples again. Faster than an oracle: "
    "a trace.",
    "backdoor": "A secret sign planted in the target's data beforehand, to see whether it still "
    "works.",
    "PPS, CFI": "How much accuracy the others kept on average; how evenly. 1 is best for both.",
    "hash": "A fingerprint of a file. Equal hashes mean equal files.",
}


def glossary_section() -> Section:
    """Plain words for a data-protection officer."""
    return Section("glossary", "Words used here", (FactList(tuple(_WORDS.items())),))
