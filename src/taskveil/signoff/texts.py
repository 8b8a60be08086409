"""The sentences of a dossier that are the same for every release of a kind."""

from __future__ import annotations

COLLECTOR = (
    "taskveil's collector stores of each report: the release, the round, a random number that recognises a repeated "
    "upload, and the randomised value.",
    "For each round it also stores counts or sums over the reports. They are deleted with the round.",
    "Its tables and its log have no address, no time of arrival and no access token of a report. The tables are in the "
    "order of the random numbers.",
    "The files of the database show more than its tables. In a round that has not ended, they can show the order of "
    "arrival. The database's write-ahead log, backups and snapshots can show order and times for as long as they are "
    "kept, and proxies and networks show addresses: that is for the operator to state.",
    "A whole round can be deleted from the database (taskveil collection forget). Copies of it (backups, exports, old "
    "blocks of a disk) must be deleted separately. The report of one person cannot be found without the number on the "
    "device, and no command deletes it alone.",
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
        "Remove addresses at a proxy, and keep no log there. End each round, and delete old backups.",
    ),
    (
        "Reports that the device does not count",
        "A device adds up the reports in its own record (the ledger). It does not know those of another device or "
        "browser of the same person, and it may miss those of a ledger that was deleted or replaced by an older copy. "
        "The limit (cap) is set by each app: another app with the same ledger may set a larger one.",
        "Let each person report from one device and one browser. Set the same limit in all apps. Other reports add to "
        "the totals on this page.",
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

OFF = (
    "A device that is off because of what its record would be",
    "The total over time holds if it does not depend on records when a device joins and when it is on. If somebody "
    "switches it off because of what happened in a round, the silence can reveal it.",
    "Let the app ask in every round by itself, also when there is nothing new.",
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
