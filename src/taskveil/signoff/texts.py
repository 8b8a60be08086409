"""The sentences of a dossier that are the same for every release of a kind."""

from __future__ import annotations

COLLECTOR = (
    "taskveil's collector stores of each report: the release, the round, a random number that recognises a repeated "
    "upload, and the randomised value.",
    "It stores no address, no time of arrival, no order of arrival and no access token of a report. Logs contain none "
    "of these either. Backups, proxies and networks may contain more: that is for the operator to state.",
    "A whole round can be deleted for good (taskveil collection forget). The report of one person cannot be found "
    "without the number on the device, and no command deletes it alone.",
)

PEOPLE_SEE = (
    "The promise of a report in words, and what all reports cost so far, if the app shows them (client.statement and "
    "client.spent()).",
    "What the device computes: the folder client/ of the release is public. Each report names the release.",
    "Each report that the device has made: the device keeps them (in the ledger).",
)

NOT_PROTECTED = (
    (
        "The volunteers whose records were used for the design",
        "The design reads their records without protection. The public files reveal means, bounds and some single "
        "values of them; the server's files reveal more.",
        "Ask for their consent. State bounds and values in a schema of your own. Protect the folder server/ like their "
        "table.",
    ),
    (
        "Who reports, and when",
        "Networks, proxies and backups see addresses and times. The promise is about the content of a report.",
        "Remove addresses at a proxy, and keep no log there.",
    ),
    (
        "The choice to answer",
        "That a person takes part or refuses is visible. If people decide by the value that is asked for, the decision "
        "reveals it.",
        "Let people decide once, before they know what is asked. Make refusal free of disadvantages.",
    ),
    (
        "The time at which a report is sent",
        "If an event on the device triggers the report, its time reveals the event.",
        "Send at fixed times, or at a random minute.",
    ),
    (
        "The device itself",
        "The record is on the device without protection. Other programs there may read it.",
        "Secure the device. taskveil cannot help there.",
    ),
    (
        "Facts about groups",
        "Facts that many people share can be learned: that is the purpose. They may then be applied to a person who "
        "did not take part.",
        "Ask whether results about a group can harm its members.",
    ),
    (
        "Correctness of the results",
        "Devices can send false reports. This harms the results, not the privacy of other people.",
        "Give tokens to known apps only. Read the column on forged reports of an estimate.",
    ),
)

TRAINING = (
    "The people in the model's training data",
    "If the model, or parts that were learned from their records, runs on devices, everybody who has a device can "
    "examine it.",
    "Do not share a model that was trained on sensitive records.",
)

CHOICE = (
    "The privacy level that a person chooses",
    "The chosen ε is visible with the report.",
    "Tell people not to let it depend on their record.",
)

BY_HAND = (
    "The volunteers have agreed that their records are used for the design.",
    "People are told in plain words what is asked, for what purpose, and that they can refuse without disadvantage.",
    "The app shows the promise of a report, and what all reports cost so far.",
    "Reports are sent at times that do not depend on the record.",
    "The folder server/ of the release and the database are protected, and few people have access.",
    "Proxies and networks in front of the server keep no addresses, or the operator states how long.",
)

ROLES = ("Responsible for the collection", "Data protection", "Information security")
