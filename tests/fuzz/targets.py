"""The table of targets."""

from collections.abc import Mapping

from tests.fuzz.audit import AUDIT
from tests.fuzz.configuration import CONFIGURATION
from tests.fuzz.connection import CONNECTION
from tests.fuzz.console import CONSOLE
from tests.fuzz.doctor import DOCTOR
from tests.fuzz.documents import DOCUMENTS
from tests.fuzz.envelope import ENVELOPE
from tests.fuzz.explain import EXPLAIN
from tests.fuzz.target import Target
from tests.fuzz.verdicts import MUTATE, VALIDATE

TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        CONNECTION,
        ENVELOPE,
        VALIDATE,
        MUTATE,
        DOCUMENTS,
        CONFIGURATION,
        EXPLAIN,
        AUDIT,
        DOCTOR,
        CONSOLE,
    )
}
